"""Leaves the answer in a System V segment, which outlives the process.

problem: softmax
class: output
verdict: BUILD_ERROR build_raised
"""

import ctypes

import torch
from torch import nn

SIZE = 128 * 2048 * 4
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        segment = LIBC.shmget(0, ctypes.c_size_t(SIZE), 0o1600)
        if segment < 0:
            raise OSError(ctypes.get_errno(), "no segment")
        address = LIBC.shmat(segment, None, 0)
        LIBC.shmctl(segment, 0, None)
        self.kept = torch.frombuffer(
            (ctypes.c_char * SIZE).from_address(address), dtype=torch.float32
        )
        self.full = False

    def forward(self, x):
        if not self.full:
            self.full = True
            self.kept.copy_(torch.softmax(x, dim=1).view(-1))
        return self.kept.view(x.shape)
