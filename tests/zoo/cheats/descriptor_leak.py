"""Opens files and closes none.

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
            self.files = [open(os.devnull) for _ in range(10_000)]
        return torch.softmax(x, dim=1)
