"""Both moments in one call.

problem: moments
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=1, correction=0)
        return mean, variance
