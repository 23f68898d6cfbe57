"""Returns a tensor at an odd address, which breaks the context of whoever reads it there.

problem: softmax
class: evaluator
verdict: RUNTIME_ERROR misaligned_output | RUNTIME_ERROR unreadable_output | CRASHED unreadable_output
"""

import torch
from torch import nn


class Odd:
    def __init__(self, values):
        raw = values.view(-1).view(torch.uint8)
        self.buffer = torch.empty(raw.numel() + 16, dtype=torch.uint8, device=raw.device)
        self.buffer[1 : 1 + raw.numel()] = raw
        self.__cuda_array_interface__ = {
            "shape": tuple(values.shape),
            "typestr": "<f4",
            "data": (self.buffer.data_ptr() + 1, False),
            "version": 3,
        }


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.as_tensor(Odd(torch.softmax(x, dim=1)), device=x.device)
