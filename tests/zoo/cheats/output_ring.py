"""Keeps more buffers than a leg has calls, and writes into them in turn.

problem: unfused
class: memory
verdict: WRONG_VALUE output_reused
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ring = []
        self.calls = 0

    def forward(self, x):
        self.ring = self.ring or [torch.empty_like(x) for _ in range(32)]
        self.calls += 1
        return torch.softmax(x, dim=1, out=self.ring[self.calls % len(self.ring)])
