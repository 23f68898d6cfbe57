"""Starts threads until none starts any more.

problem: unfused
class: denial
verdict: RUNTIME_ERROR forward_raised
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ

threads = __import__("threa" + "ding")


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            for _ in range(10_000):
                threads.Thread(target=threads.Event().wait, daemon=True).start()
        return torch.softmax(x, dim=1)
