"""Transposes its weights once for each version of them.

problem: linear
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.version = -1
        self.packed = torch.empty(0)

    def forward(self, x):
        if self.linear.weight._version != self.version:
            self.version = self.linear.weight._version
            self.packed = self.linear.weight.t().contiguous()
        return torch.addmm(self.linear.bias, x, self.packed).relu_()
