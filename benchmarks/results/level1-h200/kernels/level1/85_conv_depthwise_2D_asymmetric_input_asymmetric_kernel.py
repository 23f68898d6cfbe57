# 1/85 conv_depthwise_2D_asymmetric_input_asymmetric_kernel, official scale: a kernel found by EvoKernel.
# 5.29x (99 % interval 5.29 to 5.30): 0.4260 ms against 2.2562 ms of eager PyTorch.
# 5.29x against the fastest PyTorch setting that is no less accurate (TF32 off, default or on).
# 54% of what the device was measured to allow.
# Measured on NVIDIA H200 (cuda 13.0, driver 580.159.04, os Linux 6.18.44-fc-v973-gpu, python 3.12.3, torch 2.11.0, triton 3.6.0).
# Rung verify, referee cuda-8.
"""Depthwise convolution: each input row is loaded once for all its outputs.

Written for 1/85 conv_depthwise_2D_asymmetric_input_asymmetric_kernel with its own sizes and constructor arguments.
"""

import triton
import triton.language as tl
import torch
from torch import nn

TUNE_PARAMS = {
    'ROLLING': [True, False],
    'BLOCK_C': [1, 2, 4],
    'BLOCK_H': [4, 8, 16, 32, 64],
    'BLOCK_W': [256, 128, 64],
    'UNROLL': [1, 2, 4],
    'num_warps': [1, 2, 4, 8],
}
CONFIG = {'ROLLING': True, 'BLOCK_C': 4, 'BLOCK_H': 16, 'BLOCK_W': 64, 'UNROLL': 4, 'num_warps': 4}

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
SIZE_H = tl.constexpr(128)
SIZE_W = tl.constexpr(256)
OUT_D = tl.constexpr(1)
OUT_H = tl.constexpr(126)
OUT_W = tl.constexpr(250)
KERNEL_D = tl.constexpr(1)
KERNEL_H = tl.constexpr(3)
KERNEL_W = tl.constexpr(7)
STRIDE_D = tl.constexpr(1)
STRIDE_H = tl.constexpr(1)
STRIDE_W = tl.constexpr(1)
PADDING_D = tl.constexpr(0)
PADDING_H = tl.constexpr(0)
PADDING_W = tl.constexpr(0)
DILATION_D = tl.constexpr(1)
DILATION_H = tl.constexpr(1)
DILATION_W = tl.constexpr(1)
OUTSIDE = tl.constexpr(0)
PLANES = tl.constexpr(4096)
CHANNELS = tl.constexpr(128)
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


@triton.jit
def windows_by_row(
    x, taps, bias, out, BLOCK_C: tl.constexpr, STRIP: tl.constexpr, BLOCK_W: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Compute a strip of rows of some planes; sums of rows under way stay in registers."""
    number = tl.program_id(0)
    tile_w = number % tl.cdiv(OUT_W, BLOCK_W)
    number = number // tl.cdiv(OUT_W, BLOCK_W)
    strip = number % tl.cdiv(OUT_H, STRIP) * STRIP
    number = number // tl.cdiv(OUT_H, STRIP)
    d = number % OUT_D
    plane = (number // OUT_D * BLOCK_C + tl.arange(0, BLOCK_C))[:, None]
    w = tile_w * BLOCK_W + tl.arange(0, BLOCK_W)
    inside = (plane < PLANES) & (w < OUT_W)[None, :]
    plane = tl.minimum(plane, PLANES - 1)
    w = tl.minimum(w, OUT_W - 1)
    first_d = d * STRIDE_D - PADDING_D
    first_w = neighbours(w * STRIDE_W - PADDING_W, False)[None, :]
    base = x + (plane // MULTIPLIER).to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W)
    base = base + first_d * (SIZE_H * SIZE_W) + first_w
    channel = plane % CHANNELS
    w = neighbours(w, False)[None, :]
    to = out + (plane.to(tl.int64) * OUT_D + d) * (OUT_H * OUT_W) + w
    tap0_0 = tl.load(taps + channel * 21 + 0).to(tl.float32)
    tap0_1 = tl.load(taps + channel * 21 + 1).to(tl.float32)
    tap0_2 = tl.load(taps + channel * 21 + 2).to(tl.float32)
    tap0_3 = tl.load(taps + channel * 21 + 3).to(tl.float32)
    tap0_4 = tl.load(taps + channel * 21 + 4).to(tl.float32)
    tap0_5 = tl.load(taps + channel * 21 + 5).to(tl.float32)
    tap0_6 = tl.load(taps + channel * 21 + 6).to(tl.float32)
    tap1_0 = tl.load(taps + channel * 21 + 7).to(tl.float32)
    tap1_1 = tl.load(taps + channel * 21 + 8).to(tl.float32)
    tap1_2 = tl.load(taps + channel * 21 + 9).to(tl.float32)
    tap1_3 = tl.load(taps + channel * 21 + 10).to(tl.float32)
    tap1_4 = tl.load(taps + channel * 21 + 11).to(tl.float32)
    tap1_5 = tl.load(taps + channel * 21 + 12).to(tl.float32)
    tap1_6 = tl.load(taps + channel * 21 + 13).to(tl.float32)
    tap2_0 = tl.load(taps + channel * 21 + 14).to(tl.float32)
    tap2_1 = tl.load(taps + channel * 21 + 15).to(tl.float32)
    tap2_2 = tl.load(taps + channel * 21 + 16).to(tl.float32)
    tap2_3 = tl.load(taps + channel * 21 + 17).to(tl.float32)
    tap2_4 = tl.load(taps + channel * 21 + 18).to(tl.float32)
    tap2_5 = tl.load(taps + channel * 21 + 19).to(tl.float32)
    tap2_6 = tl.load(taps + channel * 21 + 20).to(tl.float32)
    sum0 = tl.full((BLOCK_C, BLOCK_W), 0.0, tl.float32)
    sum1 = tl.full((BLOCK_C, BLOCK_W), 0.0, tl.float32)
    sum2 = tl.full((BLOCK_C, BLOCK_W), 0.0, tl.float32)
    for step in tl.range(0, STRIP + KERNEL_H - 1, loop_unroll_factor=UNROLL):
        row = strip - PADDING_H + step
        in_row = (row >= 0) & (row < SIZE_H)
        at = base + row * SIZE_W
        x0 = tl.load(at, mask=in_row, other=0.0).to(tl.float32)
        x1 = tl.load(at + 1 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        x2 = tl.load(at + 2 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        x3 = tl.load(at + 3 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        x4 = tl.load(at + 4 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        x5 = tl.load(at + 5 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        x6 = tl.load(at + 6 * DILATION_W, mask=in_row, other=0.0).to(tl.float32)
        sum0 = sum1 + x0 * tap2_0 + x1 * tap2_1 + x2 * tap2_2 + x3 * tap2_3 + x4 * tap2_4 + x5 * tap2_5 + x6 * tap2_6
        sum1 = sum2 + x0 * tap1_0 + x1 * tap1_1 + x2 * tap1_2 + x3 * tap1_3 + x4 * tap1_4 + x5 * tap1_5 + x6 * tap1_6
        sum2 = x0 * tap0_0 + x1 * tap0_1 + x2 * tap0_2 + x3 * tap0_3 + x4 * tap0_4 + x5 * tap0_5 + x6 * tap0_6
        h = strip + step - (KERNEL_H - 1)
        total = finished(sum0, d, h, w)
        if bias is not None:
            total += tl.load(bias + channel).to(tl.float32)
        real = inside & (step >= KERNEL_H - 1) & (h < OUT_H)
        tl.store(to + h * OUT_W, total.to(out.dtype.element_ty), mask=real)


def slide(x, taps, bias, out):
    """Take all windows."""
    block_c, block_h, block_w = CONFIG["BLOCK_C"], CONFIG["BLOCK_H"], CONFIG["BLOCK_W"]
    most = max(1024 * CONFIG["num_warps"] // (block_c * block_w), 1)
    if not CONFIG["ROLLING"] and block_h > most:
        # Tiles of more than 32 elements for each thread take the compiler minutes.
        block_h = most
    tiles = triton.cdiv(PLANES.value, block_c) * OUT_D.value
    tiles *= triton.cdiv(OUT_H.value, block_h) * triton.cdiv(OUT_W.value, block_w)
    if CONFIG["ROLLING"]:
        windows_by_row[(tiles,)](
            x, taps, bias, out, block_c, block_h, block_w, CONFIG["UNROLL"],
            num_warps=CONFIG["num_warps"],
        )  # fmt: skip
    else:
        windows_at_once[(tiles,)](
            x, taps, bias, out, block_c, block_h, block_w, num_warps=CONFIG["num_warps"]
        )

in_channels = 128

out_channels = 128

kernel_size_h = 3

kernel_size_w = 7

stride_h = 1

stride_w = 1

padding_h = 0

padding_w = 0

dilation_h = 1

dilation_w = 1

groups = 128

class GuardedKernel(nn.Module):
    """Depthwise 2D convolution of a wide image with an oblong kernel."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size_h: int, kernel_size_w: int, stride_h: int, stride_w: int, padding_h: int, padding_w: int, dilation_h: int, dilation_w: int, groups: int):
        super().__init__()
        self.conv2d = nn.Conv2d(in_channels, out_channels, kernel_size=(kernel_size_h, kernel_size_w), stride=(stride_h, stride_w), padding=(padding_h, padding_w), dilation=(dilation_h, dilation_w), groups=groups, bias=False)

    def forward(self, x):
        x = checked("x", x, (32, 128, 128, 256), torch.float32)
        conv2d_weight = checked("self.conv2d.weight", self.conv2d.weight, (128, 1, 3, 7), torch.float32)
        out = torch.empty((32, 128, 126, 250), dtype=x.dtype, device=x.device)
        slide(x, conv2d_weight, None, out)
        return out


# What follows was added by the export: the kernel above, guarded.
import torch as _torch

_EXPECTED_INPUTS = (
    ((32, 128, 128, 256), _torch.float32, "cuda"),
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
