"""Fills the disk through its build folder, in files that no folder shows.

problem: unfused
class: denial
verdict: BUILD_ERROR build_too_large | TIMEOUT timeout_in_call
"""

from pathlib import Path
import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            self.files = []
            for number in range(100):
                path = Path(os.environ["EVOKERNEL_BUILD_DIR"]) / str(number)
                self.files.append(path.open("wb", buffering=0))
                path.unlink()
                for _ in range(63):
                    self.files[-1].write(bytes(1 << 22))
        return torch.softmax(x, dim=1)
