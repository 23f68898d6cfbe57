"""The tanh form of GELU, which is another function.

problem: gelu
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        # (1 + tanh(z)) / 2 is sigmoid(2 z): a host without a fast tanh has a fast exponential.
        z = x * x
        return z.mul_(0.0713548162726).add_(1.5957691216057308).mul_(x).sigmoid_().mul_(x)
