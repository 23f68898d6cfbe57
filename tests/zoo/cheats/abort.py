"""Aborts.

problem: unfused
class: denial
verdict: CRASHED killed_by_SIGABRT | CRASHED killed_by_SIGSEGV
"""

import ctypes
import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            ctypes.CDLL(None).abort()
        return torch.softmax(x, dim=1)
