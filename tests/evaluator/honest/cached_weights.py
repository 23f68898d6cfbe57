"""A linear layer that prepares its weights once for each version of them."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.version = -1
        self.prepared = torch.empty(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.linear.weight._version != self.version:
            self.version = self.linear.weight._version
            self.prepared = self.linear.weight.t().contiguous()
        return torch.addmm(self.linear.bias, x, self.prepared).relu()
