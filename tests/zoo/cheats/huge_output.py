"""Returns a gigabyte of one number.

problem: unfused
class: denial
verdict: WRONG_SHAPE output_too_large
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            return torch.zeros(1).expand(1 << 24)
        return torch.softmax(x, dim=1)
