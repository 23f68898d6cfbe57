"""A problem of your own: the tail of a feed-forward block, in KernelBench's form.

Search for faster kernels for it with

    evokernel run --problem-file examples/my_problem.py --generations 3

`Model` is the program to beat, `get_init_inputs` gives its constructor's arguments and
`get_inputs` draws inputs for one call. Sizes are constants of the module. Eager PyTorch makes
five passes over memory here; one is enough.
"""

import torch
from torch import nn

rows = 512
features = 1024


class Model(nn.Module):
    """Bias, GELU and a learned scale for each feature."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return gelu(x + bias) * scale for x of shape (rows, features)."""
        return nn.functional.gelu(x + self.bias, approximate="tanh") * self.scale


def get_inputs() -> list[torch.Tensor]:
    """Draw the inputs of one call."""
    return [torch.randn(rows, features)]


def get_init_inputs() -> list[int]:
    """Return the constructor's arguments."""
    return [features]
