"""A running product in tiles, each scanned as a tree, with a carry from tile to tile.

problem: running_product
verdict: OK
least: 0.7
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def _multiply(a, b):
    return a * b


@triton.jit
def _kernel(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    carry = tl.full((1,), 1.0, tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row + at, mask=at < n, other=1.0)
        tl.store(out + row + at, carry * tl.associative_scan(values, 0, _multiply), mask=at < n)
        carry *= tl.reduce(values, 0, _multiply)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        _kernel[(len(x),)](x, out, x.shape[1], BLOCK=2048)
        return out
