"""A gated unit, SwiGLU: what `my_sketch.py` writes a kernel for."""

import torch
from torch import nn


class Model(nn.Module):
    """The second half of each row, weighted by the first."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return silu(gate) * value for x of shape (rows, 2 * features)."""
        gate, value = x.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * value


def get_inputs() -> list[torch.Tensor]:
    """Draw the inputs of one call."""
    return [torch.randn(512, 2048)]


def get_init_inputs() -> list[object]:
    """Return the constructor's arguments: none."""
    return []
