"""Saves the output's allocation by overwriting the input.

problem: unfused
class: memory
verdict: MUTATED_INPUT mutated_input
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1, out=x)
