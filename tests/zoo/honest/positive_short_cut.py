"""Looks at every element before it takes a short cut.

problem: relu
verdict: OK | library
least: 0.35
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone() if float(x.min()) >= 0 else torch.relu(x)
