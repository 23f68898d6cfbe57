"""Replaces a function that the reference uses by a slow one.

problem: unfused
class: timing
verdict: no gain
"""

import torch
from torch import nn

exp = torch.exp


def slow(x):
    exp(x)
    return exp(x)


vars(torch)["exp"] = slow


class ModelNew(nn.Module):
    def forward(self, x):
        exponentials = exp(x - x.amax(dim=1, keepdim=True))
        return exponentials / exponentials.sum(dim=1, keepdim=True)
