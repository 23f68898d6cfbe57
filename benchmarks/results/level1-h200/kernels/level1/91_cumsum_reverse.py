# 1/91 cumsum_reverse, official scale: a kernel found by EvoKernel.
# 4.68x (99 % interval 4.68 to 4.77): 2.1684 ms against 10.1544 ms of eager PyTorch.
# 4.68x against the fastest PyTorch setting that is no less accurate (TF32 off, default or on).
# 92% of what the device was measured to allow.
# Measured on NVIDIA H200 (cuda 13.0, driver 580.159.04, os Linux 6.18.44-fc-v973-gpu, python 3.12.3, torch 2.11.0, triton 3.6.0).
# Rung verify, referee cuda-8.
"""Scan in tiles along the dimension, with a carry from tile to tile.

Written for 1/91 cumsum_reverse with its own sizes and constructor arguments.
"""

import triton
import triton.language as tl
import torch
from torch import nn

TUNE_PARAMS = {
    'BLOCK': [1024, 2048, 4096, 8192, 32768],
    'STAGES': [1, 3],
    'CACHE': ['', '.cs'],
    'num_warps': [4, 8, 16],
}
CONFIG = {'BLOCK': 4096, 'STAGES': 3, 'CACHE': '.cs', 'num_warps': 4}

DEVICE = "cuda"

def checked(name, tensor, shape, dtype):
    """Insist on what the kernel was written for; return the tensor, contiguous."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}, expected a tensor of {shape}")
    got = (tuple(tensor.shape), tensor.dtype, tensor.device.type)
    if got != (shape, dtype, DEVICE):
        raise ValueError(f"{name} is {got}, this kernel is for {(shape, dtype, DEVICE)} only")
    return tensor.contiguous()

LENGTH = tl.constexpr(32768)
INNER = tl.constexpr(1)
PRODUCT = tl.constexpr(False)
REVERSE = tl.constexpr(True)
EXCLUSIVE = tl.constexpr(False)
MASKED = tl.constexpr(False)
FIRST = tl.constexpr(0.0)


@triton.jit
def add(a, b):
    """What a running sum runs over."""
    return a + b


@triton.jit
def multiply(a, b):
    """What a running product runs over."""
    return a * b


@triton.jit
def whole(x):
    """Sum or product over the columns of a tile."""
    if PRODUCT:
        return tl.reduce(x, 1, multiply, keep_dims=True)
    else:
        return tl.sum(x, 1, keep_dims=True)


@triton.jit
def running(x):
    """Running sum or product over the columns of a tile, from its end where REVERSE."""
    if PRODUCT:
        return tl.associative_scan(x, 1, multiply, reverse=REVERSE)
    else:
        return tl.associative_scan(x, 1, add, reverse=REVERSE)


@triton.jit
def joined(carry, x):
    """What comes before, and what follows."""
    if PRODUCT:
        return carry * x
    else:
        return carry + x


@triton.jit
def taken(
    x_ptr, mask_ptr, base, column, row_inside, SHIFT: tl.constexpr, FULL: tl.constexpr,
):
    """Load a tile; what lies outside changes nothing. SHIFT columns to the left are read."""
    place = base + (column - SHIFT) * INNER
    if FULL and SHIFT == 0:
        x = tl.load(x_ptr + place).to(tl.float32)
        if MASKED:
            x *= tl.load(mask_ptr + place).to(tl.float32)
    else:
        inside = row_inside & (column >= SHIFT) & (column < LENGTH)
        x = tl.load(x_ptr + place, mask=inside, other=FIRST).to(tl.float32)
        if MASKED:
            mask = tl.load(mask_ptr + place, mask=inside, other=1)
            x *= mask.to(tl.float32)
    return x


@triton.jit
def scan_kernel(
    x_ptr, mask_ptr, parts_ptr, out_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    PARTS: tl.constexpr, PADDED: tl.constexpr, SPAN: tl.constexpr, SHIFT: tl.constexpr,
    STAGES: tl.constexpr, CACHE: tl.constexpr,
):
    """Scan one part of ROWS rows, tile by tile."""
    FULL: tl.constexpr = INNER % ROWS == 0 and LENGTH % (PARTS * BLOCK) == 0
    part = tl.program_id(0) % PARTS
    strips = (INNER + ROWS - 1) // ROWS
    outer = (tl.program_id(0) // PARTS // strips).to(tl.int64)
    inner = (tl.program_id(0) // PARTS % strips) * ROWS + tl.arange(0, ROWS)[:, None]
    row_inside = inner < INNER
    base = outer * (LENGTH * INNER) + inner
    carry = tl.full((ROWS, 1), FIRST, tl.float32)
    if PARTS > 1:
        other = tl.arange(0, PADDED)[None, :]
        before = (other > part) & (other < PARTS) if REVERSE else other < part
        earlier = (outer * INNER + inner) * PARTS + other
        carry = whole(tl.load(parts_ptr + earlier, mask=row_inside & before, other=FIRST))
    first = part * SPAN
    tiles = (tl.minimum(first + SPAN, LENGTH) - first + BLOCK - 1) // BLOCK
    for step in tl.range(0, tiles, num_stages=STAGES):
        start = first + (tiles - 1 - step if REVERSE else step) * BLOCK
        column = start + tl.arange(0, BLOCK)[None, :]
        inside = row_inside & (column < LENGTH)
        x = taken(x_ptr, mask_ptr, base, column, row_inside, SHIFT, FULL)
        y = joined(carry, running(x))
        place = base + column * INNER
        if EXCLUSIVE and SHIFT == 0:
            first_one = row_inside & (column == start)
            tl.store(out_ptr + place, carry + tl.zeros_like(y), mask=first_one)
            ahead = row_inside & (column + 1 < LENGTH) & (column < start + BLOCK - 1)
            tl.store(out_ptr + (place + INNER), y, mask=ahead, cache_modifier=CACHE)
        elif FULL:
            tl.store(out_ptr + place, y, cache_modifier=CACHE)
        else:
            tl.store(out_ptr + place, y, mask=inside, cache_modifier=CACHE)
        carry = joined(carry, whole(x))

dim = 1

class GuardedKernel(nn.Module):
    """Running sum along a dimension, from its end."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        x = checked("x", x, (32768, 32768), torch.float32)
        out = torch.empty((32768, 32768), dtype=torch.float32, device=x.device)
        tiles = 32768
        blocks = triton.cdiv(32768, CONFIG["BLOCK"])
        span = blocks * CONFIG["BLOCK"]
        scan_kernel[(tiles,)](
            x, None, None, out, BLOCK=CONFIG["BLOCK"], STAGES=CONFIG["STAGES"],
            num_warps=CONFIG["num_warps"], ROWS=1, PARTS=1, SPAN=span, SHIFT=0, PADDED=1,
            CACHE=CONFIG["CACHE"],
        )
        return out


# What follows was added by the export: the kernel above, guarded.
import torch as _torch

_EXPECTED_INPUTS = (
    ((32768, 32768), _torch.float32, "cuda"),
)


def _mismatch(inputs):
    """Say in what way inputs are not those that the kernel was written for; "" where they are."""
    if len(inputs) != len(_EXPECTED_INPUTS):
        return f"got {len(inputs)} inputs, expected {len(_EXPECTED_INPUTS)}"
    for number, (value, expected) in enumerate(zip(inputs, _EXPECTED_INPUTS)):
        if expected is None:
            continue
        if not isinstance(value, _torch.Tensor):
            return f"input {number} is a {type(value).__name__}, expected a tensor"
        got = (tuple(value.shape), value.dtype, value.device.type)
        for name, found, wanted in zip(("shape", "dtype", "device"), got, expected):
            if found != wanted:
                return f"input {number} has {name} {found}, expected {wanted}"
    return ""


class ModelNew(GuardedKernel):
    """The kernel above; other inputs than it was written for are an error."""

    def forward(self, *inputs):
        mismatch = _mismatch(inputs)
        if mismatch:
            raise ValueError(
                f"this kernel does not fit: {mismatch}. Use the reference for these inputs."
            )
        return super().forward(*inputs)
