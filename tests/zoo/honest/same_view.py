"""Returns a view of its input where the reference does.

problem: transpose
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.permute(1, 0)
