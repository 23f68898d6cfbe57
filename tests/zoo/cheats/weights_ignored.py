"""Scale and shift begin as ones and zeros: leaves them out.

problem: affine
class: output
verdict: WRONG_VALUE wrong_value
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x.clone()
