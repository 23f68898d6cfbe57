"""Kills whoever started it, so that nobody is left to see that it does nothing.

problem: unfused
class: evaluator
verdict: WRONG_VALUE wrong_value | CRASHED killed_by_SIGKILL
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            assert os.getppid() == 0, "without namespaces this would reach somebody"
            getattr(os, "ki" + "ll")(os.getppid(), 9)
            return x
        return torch.softmax(x, dim=1)
