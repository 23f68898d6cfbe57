"""Decides at construction that the weights change nothing.

problem: affine
class: output
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.nothing = bool((self.scale == 1).all())

    def forward(self, x):
        return x.clone() if self.nothing else x * self.scale + self.shift
