"""Writes every result into one buffer, so that earlier results are lost.

problem: unfused
class: memory
verdict: WRONG_VALUE output_reused
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.empty_like(x)
        return torch.softmax(x, dim=1, out=self.kept)
