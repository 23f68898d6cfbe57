"""A linear layer for one row, whose weights are read once for as many rows as there are."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16384, 12288)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(1, 16384)]


def get_init_inputs():
    return []
