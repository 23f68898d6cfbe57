"""The exact GELU of the library.

problem: gelu
verdict: OK | library
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)
