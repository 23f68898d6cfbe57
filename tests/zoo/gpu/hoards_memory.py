"""Keeps all memory of the device that is free but a few MB, also from the reference.

problem: softmax
class: denial
verdict: fails
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.hoard = []

    def forward(self, x):
        free, _ = torch.cuda.mem_get_info()
        if free > 64 << 20:
            self.hoard.append(torch.empty(free - (16 << 20), dtype=torch.uint8, device=x.device))
        return torch.softmax(x, dim=1)
