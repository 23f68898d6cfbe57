"""A linear layer for one row: it takes as long as its weights take to be read."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(1, 1024)]


def get_init_inputs():
    return [1024]
