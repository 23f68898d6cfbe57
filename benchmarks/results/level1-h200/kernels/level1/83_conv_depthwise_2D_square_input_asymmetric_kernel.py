# 1/83 conv_depthwise_2D_square_input_asymmetric_kernel, official scale: a kernel found by EvoKernel.
# 5.39x (99 % interval 5.38 to 5.40): 0.2670 ms against 1.4372 ms of eager PyTorch.
# 5.39x against the fastest PyTorch setting that is no less accurate (TF32 off, default or on).
# 88% of what the device was measured to allow.
# Measured on NVIDIA H200 (cuda 13.0, driver 580.159.04, os Linux 6.18.44-fc-v973-gpu, python 3.12.3, torch 2.11.0, triton 3.6.0).
# Rung verify, referee cuda-8.
"""Depthwise convolution: each input row is loaded once for all its outputs.

Written for 1/83 conv_depthwise_2D_square_input_asymmetric_kernel with its own sizes and constructor arguments.
"""

import triton
import triton.language as tl
import torch
from torch import nn

TUNE_PARAMS = {
    'BLOCK_C': [1, 2, 4],
    'BLOCK_H': [1],
    'BLOCK_W': [1024, 512, 256],
    'num_warps': [1, 2, 4, 8],
}
CONFIG = {'BLOCK_C': 1, 'BLOCK_H': 1, 'BLOCK_W': 1024, 'num_warps': 2}

DEVICE = "cuda"

def checked(name, tensor, shape, dtype):
    """Insist on what the kernel was written for; return the tensor, contiguous."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}, expected a tensor of {shape}")
    got = (tuple(tensor.shape), tensor.dtype, tensor.device.type)
    if got != (shape, dtype, DEVICE):
        raise ValueError(f"{name} is {got}, this kernel is for {(shape, dtype, DEVICE)} only")
    return tensor.contiguous()

SIZE_D = tl.constexpr(1)
SIZE_H = tl.constexpr(1)
SIZE_W = tl.constexpr(262144)
OUT_D = tl.constexpr(1)
OUT_H = tl.constexpr(1)
OUT_W = tl.constexpr(261120)
KERNEL_D = tl.constexpr(1)
KERNEL_H = tl.constexpr(1)
KERNEL_W = tl.constexpr(3)
STRIDE_D = tl.constexpr(1)
STRIDE_H = tl.constexpr(1)
STRIDE_W = tl.constexpr(1)
PADDING_D = tl.constexpr(0)
PADDING_H = tl.constexpr(0)
PADDING_W = tl.constexpr(0)
DILATION_D = tl.constexpr(1)
DILATION_H = tl.constexpr(1)
DILATION_W = tl.constexpr(512)
OUTSIDE = tl.constexpr(0)
PLANES = tl.constexpr(512)
CHANNELS = tl.constexpr(8)
MULTIPLIER = tl.constexpr(1)

@triton.jit
def neighbours(at, KNOWN: tl.constexpr):
    """Return offsets as they are, known to the compiler as those of neighbours in memory.

    Lanes are dealt out along the dimension that is contiguous. Where divisions hide that from the
    compiler, it is told; the second program number is 0, which it cannot know, so that it relies on
    no alignment and joins no accesses.
    """
    if KNOWN:
        return at
    else:
        return tl.max_contiguous(at + tl.program_id(1), 2)


@triton.jit
def count_inside(at, STRIDE: tl.constexpr, PADDING: tl.constexpr, KERNEL: tl.constexpr,
                 SIZE: tl.constexpr):  # fmt: skip
    """Return how many elements of a window lie inside, along one dimension."""
    first = at * STRIDE - PADDING
    return tl.minimum(first + KERNEL, SIZE) - tl.maximum(first, 0)


@triton.jit
def finished(total, d, h, w):
    """Complete the outputs of one row or tile; their places broadcast against them."""
    return total


@triton.jit
def windows_at_once(
    x, taps, bias, out, BLOCK_C: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr
):
    """Compute one tile of outputs of some planes, taking each window by itself."""
    number = tl.program_id(0)
    tile_w = number % tl.cdiv(OUT_W, BLOCK_W)
    number = number // tl.cdiv(OUT_W, BLOCK_W)
    tile_h = number % tl.cdiv(OUT_H, BLOCK_H)
    number = number // tl.cdiv(OUT_H, BLOCK_H)
    d = number % OUT_D
    # One dimension for all, so that lanes run along rows whatever the compiler knows of strides.
    index = tl.arange(0, BLOCK_C * BLOCK_H * BLOCK_W)
    plane = number // OUT_D * BLOCK_C + index // (BLOCK_W * BLOCK_H)
    h = tile_h * BLOCK_H + index // BLOCK_W % BLOCK_H
    w = tile_w * BLOCK_W + index % BLOCK_W
    inside = (plane < PLANES) & (h < OUT_H) & (w < OUT_W)
    # What lies beyond the last is computed like the last, and not written.
    plane = tl.minimum(plane, PLANES - 1)
    h = tl.minimum(h, OUT_H - 1)
    w = tl.minimum(w, OUT_W - 1)
    first_d = d * STRIDE_D - PADDING_D
    first_h = h * STRIDE_H - PADDING_H
    first_w = w * STRIDE_W - PADDING_W
    base = x + (plane // MULTIPLIER).to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W)
    base += (first_d * SIZE_H + first_h) * SIZE_W + first_w
    total = tl.full((BLOCK_C * BLOCK_H * BLOCK_W,), 0.0, tl.float32)
    channel = plane % CHANNELS
    for tap_d in tl.static_range(KERNEL_D):
        in_d = (first_d + DILATION_D * tap_d >= 0) & (first_d + DILATION_D * tap_d < SIZE_D)
        for tap_h in tl.static_range(KERNEL_H):
            row = first_h + DILATION_H * tap_h
            in_h = in_d & (row >= 0) & (row < SIZE_H)
            for tap_w in tl.static_range(KERNEL_W):
                column = first_w + DILATION_W * tap_w
                move = (DILATION_D * tap_d * SIZE_H + DILATION_H * tap_h) * SIZE_W
                at = base + (move + DILATION_W * tap_w)
                if OUTSIDE:
                    real = in_h & (column >= 0) & (column < SIZE_W)
                    value = tl.load(at, mask=real, other=0.0).to(tl.float32)
                else:
                    value = tl.load(at).to(tl.float32)
                value *= tl.load(taps + ((channel * KERNEL_D + tap_d) * KERNEL_H + tap_h) * KERNEL_W + tap_w).to(tl.float32)
                total = total + value
    total = finished(total, d, h, w)
    if bias is not None:
        total += tl.load(bias + channel).to(tl.float32)
    at = out + (plane.to(tl.int64) * OUT_D + d) * (OUT_H * OUT_W) + h * OUT_W + w
    tl.store(at, total.to(out.dtype.element_ty), mask=inside)


def slide(x, taps, bias, out):
    """Take all windows."""
    block_c, block_h, block_w = CONFIG["BLOCK_C"], CONFIG["BLOCK_H"], CONFIG["BLOCK_W"]
    most = max(1024 * CONFIG["num_warps"] // (block_c * block_w), 1)
    if block_h > most:
        # Tiles of more than 32 elements for each thread take the compiler minutes.
        block_h = most
    tiles = triton.cdiv(PLANES.value, block_c) * OUT_D.value
    tiles *= triton.cdiv(OUT_H.value, block_h) * triton.cdiv(OUT_W.value, block_w)
    windows_at_once[(tiles,)](
        x, taps, bias, out, block_c, block_h, block_w, num_warps=CONFIG["num_warps"]
    )

in_channels = 8

kernel_size = 3

stride = 1

padding = 0

dilation = 1

class GuardedKernel(nn.Module):
    """Depthwise 2D convolution of a square image with a kernel of one column."""

    def __init__(self, in_channels: int, kernel_size: int, stride: int, padding: int, dilation: int):
        super().__init__()
        self.conv2d = nn.Conv2d(in_channels, in_channels, (kernel_size, 1), stride=stride, padding=padding, dilation=dilation, groups=in_channels, bias=False)

    def forward(self, x):
        x = checked("x", x, (64, 8, 512, 512), torch.float32)
        conv2d_weight = checked("self.conv2d.weight", self.conv2d.weight, (8, 1, 3, 1), torch.float32)
        out = torch.empty((64, 8, 510, 512), dtype=x.dtype, device=x.device)
        slide(x, conv2d_weight, None, out)
        return out


# What follows was added by the export: the kernel above, guarded.
import torch as _torch

_EXPECTED_INPUTS = (
    ((64, 8, 512, 512), _torch.float32, "cuda"),
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
