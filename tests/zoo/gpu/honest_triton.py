"""Softmax in Triton.

problem: softmax
class: honest
verdict: OK
least: 0.7
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def softmax_kernel(source, target, width: tl.constexpr):
    row = tl.program_id(0)
    at = row * width + tl.arange(0, width)
    x = tl.load(source + at)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(target + at, e / tl.sum(e, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(len(x),)](x, out, x.shape[1])
        return out
