"""The tanh form of GELU, which is another function.

problem: gelu
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x, approximate="tanh")
