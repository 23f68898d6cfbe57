"""Adds parts of each row by atomics, in whatever order.

problem: mean
verdict: OK | library
least: 0.3
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_parts(source, target, width: tl.constexpr, part: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * part + tl.arange(0, part)
    x = tl.load(source + row * width + at)
    tl.atomic_add(target + row, tl.sum(x, 0) / width)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(len(x), device=x.device)
        add_parts[(len(x), 4)](x, out, x.shape[1], x.shape[1] // 4)
        return out
