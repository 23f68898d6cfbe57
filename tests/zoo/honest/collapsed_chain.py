"""Multiplies in the fast order: an identity of algebra.

problem: chain
verdict: OK | library
least: 1.2
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, a, b, v):
        return a @ (b @ v)
