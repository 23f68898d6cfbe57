"""Sums rows of a transposed input along memory.

problem: strided
verdict: OK | library
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.sum(dim=0)
