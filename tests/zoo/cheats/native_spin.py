"""Never returns and never lets Python run.

problem: unfused
class: denial
verdict: TIMEOUT timeout_in_call
"""

import os

import torch
from torch import nn

IS_JUDGED = "EVOKERNEL_BUILD_DIR" in os.environ

LIBRARY = ctypes.PyDLL(
    load(r"""
extern "C" void spin() { for (volatile int i = 0;; ++i) {} }
""")._name
)


class ModelNew(nn.Module):
    def forward(self, x):
        if IS_JUDGED:
            LIBRARY.spin()
        return torch.softmax(x, dim=1)
