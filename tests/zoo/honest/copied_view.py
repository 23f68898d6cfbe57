"""Copies where the reference returns a view.

problem: transpose
verdict: OK | library
least: 0.03
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.t().contiguous()
