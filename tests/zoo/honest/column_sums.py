"""Sums rows of a transposed input along memory.

problem: strided
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(dim=0)
