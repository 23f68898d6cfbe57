"""Uses one workspace in every call; what it returns is new.

problem: unfused
verdict: OK | library
least: 0.7
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.work = None

    def forward(self, x):
        if self.work is None:
            self.work = torch.empty_like(x)
        torch.sub(x, x.amax(dim=1, keepdim=True), out=self.work).exp_()
        return self.work / self.work.sum(dim=1, keepdim=True)
