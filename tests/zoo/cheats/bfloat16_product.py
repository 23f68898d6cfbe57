"""Multiplies in bfloat16.

problem: linear
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.version = -1

    def forward(self, x):
        if self.linear.weight._version != self.version:
            self.version = self.linear.weight._version
            self.weight = self.linear.weight.to(torch.bfloat16)
            self.bias = self.linear.bias.to(torch.bfloat16)
        return (
            nn.functional.linear(x.to(torch.bfloat16), self.weight, self.bias).relu_().to(x.dtype)
        )
