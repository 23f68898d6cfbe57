"""Fails with ten megabytes of text.

problem: unfused
class: denial
verdict: RUNTIME_ERROR forward_raised
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            raise ValueError("x" * 10_000_000)
        return torch.softmax(x, dim=1)
