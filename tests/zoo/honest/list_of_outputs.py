"""The same, in a list.

problem: moments
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return [x.mean(dim=1), x.var(dim=1, unbiased=False)]
