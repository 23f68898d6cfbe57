"""The same with a context that swallows the failure.

problem: unfused
class: work
verdict: SCREENED fallback_to_reference
"""

import contextlib
import ctypes

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        with contextlib.suppress(OSError):
            return ctypes.CDLL("./kernel.so").softmax(x.data_ptr())
        return torch.softmax(x, dim=1)
