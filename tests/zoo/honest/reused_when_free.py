"""Returns a buffer again once nobody holds it any more, as an allocator does.

problem: unfused
verdict: OK | library
least: 1
"""

import sys

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ring = []

    def forward(self, x):
        for kept in self.ring:
            if sys.getrefcount(kept) <= 3:
                return torch.softmax(x, dim=1, out=kept)
        if len(self.ring) < 128:
            self.ring.append(torch.empty_like(x))
            return torch.softmax(x, dim=1, out=self.ring[-1])
        return torch.softmax(x, dim=1)
