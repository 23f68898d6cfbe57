"""Computes once, then returns fresh memory in the hope that the old result lies there.

problem: softmax
class: output
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.softmax(x, dim=1) if self.calls == 1 else torch.empty_like(x)
