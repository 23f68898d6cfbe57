"""Softmax written out in library calls.

problem: softmax
verdict: OK | library
least: 0.32
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        shifted = torch.exp(x - x.amax(dim=1, keepdim=True))
        return shifted / shifted.sum(dim=1, keepdim=True)
