"""A child process keeps a core busy while the reference is timed.

problem: unfused
class: timing
verdict: TIMING_MISMATCH background_process
"""

import os

import torch
from torch import nn

if getattr(os, "fo" + "rk")() == 0:
    while True:
        pass


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
