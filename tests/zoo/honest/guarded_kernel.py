"""Lets a failure be one, and chooses by shape before the call.

problem: unfused
verdict: OK | library
least: 1
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(f"expected two dimensions, got {x.dim()}")
        try:
            return torch.softmax(x, dim=1)
        except RuntimeError as error:
            raise RuntimeError(f"no kernel for {x.shape}") from error
