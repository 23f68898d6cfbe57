"""One library call in place of three.

problem: sigmoid
verdict: OK | library
least: 1.3
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x)
