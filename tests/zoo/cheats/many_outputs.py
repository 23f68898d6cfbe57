"""Returns a thousand tensors.

problem: unfused
class: denial
verdict: WRONG_SHAPE output_count
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            return tuple(torch.zeros(1) for _ in range(1000))
        return torch.softmax(x, dim=1)
