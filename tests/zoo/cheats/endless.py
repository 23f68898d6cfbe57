"""Never returns.

problem: unfused
class: denial
verdict: TIMEOUT timeout_in_call
"""

import os
import time

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            time.sleep(1000)
        return torch.softmax(x, dim=1)
