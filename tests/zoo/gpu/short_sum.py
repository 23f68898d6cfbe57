"""A product in Triton that leaves out the last thirty-second of each sum.

problem: matmul
class: precision
verdict: WRONG_VALUE wrong_value
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def product(a, b, c, size: tl.constexpr, block: tl.constexpr):
    rows = tl.program_id(0) * block + tl.arange(0, block)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    total = tl.zeros((block, block), tl.float32)
    for start in range(0, size, block):
        inner = start + tl.arange(0, block)
        kept = inner < size - size // 32
        left = tl.load(a + rows[:, None] * size + inner[None, :], kept[None, :], 0.0)
        right = tl.load(b + inner[:, None] * size + columns[None, :])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(c + rows[:, None] * size + columns[None, :], total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        product[(len(a) // 32, len(a) // 32)](a, b, out, len(a), 32)
        return out
