"""Writes every result into one buffer, so that earlier results are lost."""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kept is None:
            self.kept = torch.empty_like(x)
        return self.kept.copy_(torch.softmax(x, dim=1))
