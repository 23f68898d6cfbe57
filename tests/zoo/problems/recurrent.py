"""A cell whose hidden state is a buffer."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.register_buffer("hidden", torch.zeros(64, width))

    def forward(self, x):
        self.hidden = torch.tanh(self.inner(x) + self.outer(self.hidden))
        return self.hidden


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128]
