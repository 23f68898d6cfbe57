"""Uses scale and shift, under the reference's names.

problem: affine
verdict: OK | library
least: 0.8
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.addcmul(self.shift, x, self.scale)
