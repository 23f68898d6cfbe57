"""A child process keeps the machine busy while the reference is timed.

problem: unfused
class: timing
verdict: TIMING_MISMATCH background_process
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ

if IS_JUDGED and getattr(os, "fo" + "rk")() == 0:
    while True:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
