"""Its parameters have names of their own; none is constant as constructed.

problem: linear
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        layer = nn.Linear(width, width)
        self.matrix = layer.weight
        self.shift = layer.bias

    def forward(self, x):
        return torch.relu(x @ self.matrix.t() + self.shift)
