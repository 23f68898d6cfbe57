"""A product of 144 tiles of 128 x 128: one wave of an H200's 132 multiprocessors, and 12 tiles."""

import torch
from torch import nn


class Model(nn.Module):
    """Product of two matrices of a moderate size and a long depth."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Return it."""
        return a @ b


def get_inputs() -> list[torch.Tensor]:
    """Return numbers around 0."""
    return [torch.rand(1536, 4096) - 0.5, torch.rand(4096, 1536) - 0.5]


def get_init_inputs() -> list[object]:
    """Return nothing: it has no sizes."""
    return []
