"""Asks for 100 GB at once.

problem: unfused
class: denial
verdict: OUT_OF_MEMORY allocation_failed
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            torch.ones(25_000_000_000)
        return torch.softmax(x, dim=1)
