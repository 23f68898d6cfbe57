"""The exact GELU of the library.

problem: gelu
verdict: OK | library
least: 1.3
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)
