# 1/87 conv_pointwise_2D, official scale: a kernel found by EvoKernel.
# 0.91x (99 % interval 0.91 to 0.91): 3.7671 ms against 3.4437 ms of eager PyTorch.
# 2.58x against the fastest PyTorch setting that is no less accurate (TF32 off, default or on).
# 78% of what the device was measured to allow.
# Measured on NVIDIA H200 (cuda 13.0, driver 580.159.04, os Linux 6.18.44-fc-v973-gpu, python 3.12.3, torch 2.11.0, triton 3.6.0).
# Rung verify, referee cuda-8.
"""Matrix product of a short depth: one step for each tile of the result.

Written for 1/87 conv_pointwise_2D with its own sizes and constructor arguments.
"""

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
import torch
from torch import nn

TUNE_PARAMS = {
    'PRECISION': ['fp16x3', 'bf16x6', 'tf32'],
    'BLOCK_M': [64, 128],
    'BLOCK_N': [32, 64, 128],
    'SPANS': [64, 128, 256],
    'STORE': ['pointers'],
    'SCALES': ['whole', 'lines'],
    'num_warps': [4, 8],
    'num_stages': [1, 2, 3],
}
CONFIG = {
    'PRECISION': 'fp16x3',
    'BLOCK_M': 128,
    'BLOCK_N': 64,
    'SPANS': 128,
    'STORE': 'pointers',
    'SCALES': 'lines',
    'num_warps': 4,
    'num_stages': 3,
}

DEVICE = "cuda"

def checked(name, tensor, shape, dtype):
    """Insist on what the kernel was written for; return the tensor, contiguous."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name} is a {type(tensor).__name__}, expected a tensor of {shape}")
    got = (tuple(tensor.shape), tensor.dtype, tensor.device.type)
    if got != (shape, dtype, DEVICE):
        raise ValueError(f"{name} is {got}, this kernel is for {(shape, dtype, DEVICE)} only")
    return tensor.contiguous()

BATCH = 16
DEPTH = 64
PEAKS = 1024
SIZES = {"M": 128, "N": 1048576, "K": 64, "A_OFFSET": 0, "A_BATCH": 0, "A_ROW": 64, "A_COLUMN": 1, "B_OFFSET": 0, "B_BATCH": 67108864, "B_ROW": 1048576, "B_COLUMN": 1}
A_VIEW = {"BATCHES": 1, "ROWS": 128, "DEPTH": 64, "OFFSET": 0, "BATCH_STRIDE": 0, "ROW_STRIDE": 64, "DEPTH_STRIDE": 1, "TRIANGLE": 0}
B_VIEW = {"BATCHES": 16, "ROWS": 1048576, "DEPTH": 64, "OFFSET": 0, "BATCH_STRIDE": 67108864, "ROW_STRIDE": 1, "DEPTH_STRIDE": 1048576, "TRIANGLE": 0}

@triton.jit
def power_below(peak):
    """Return the power of two that brings a magnitude to 2^14 .. 2^15, and its inverse."""
    exponent = (peak.to(tl.int32, bitcast=True) >> 23) & 255
    raised = tl.minimum(268 - exponent, 253)
    return (raised << 23).to(tl.float32, bitcast=True), ((254 - raised) << 23).to(
        tl.float32, bitcast=True
    )


@triton.jit
def halved(x, KIND: tl.constexpr):
    """Split float32 numbers into the nearest of a narrow type, and the remainder in float32."""
    high = x.to(KIND)
    return high, x - high.to(tl.float32)


@triton.jit
def three_products(a, b, total, KIND: tl.constexpr):
    """Add a @ b to a total by two parts of each operand."""
    a0, rest = halved(a, KIND)
    a1 = rest.to(KIND)
    b0, rest = halved(b, KIND)
    b1 = rest.to(KIND)
    total = tl.dot(a0, b1, total)
    total = tl.dot(a1, b0, total)
    return tl.dot(a0, b0, total)


@triton.jit
def six_products(a, b, total):
    """Add a @ b to a total by three parts of each operand."""
    a0, rest = halved(a, tl.bfloat16)
    a1, rest = halved(rest, tl.bfloat16)
    a2 = rest.to(tl.bfloat16)
    b0, rest = halved(b, tl.bfloat16)
    b1, rest = halved(rest, tl.bfloat16)
    b2 = rest.to(tl.bfloat16)
    total = tl.dot(a0, b2, total)
    total = tl.dot(a1, b1, total)
    total = tl.dot(a2, b0, total)
    total = tl.dot(a0, b1, total)
    total = tl.dot(a1, b0, total)
    return tl.dot(a0, b0, total)


@triton.jit
def multiplied(a, b, total, PRECISION: tl.constexpr):
    """Return total + a @ b, for tiles of float32, or of 16 bits where PRECISION is "native"."""
    if PRECISION == "native":
        return tl.dot(a, b, total)
    elif PRECISION == "bf16x3":
        return three_products(a, b, total, tl.bfloat16)
    elif PRECISION == "bf16x6":
        return six_products(a, b, total)
    elif PRECISION == "fp16x3":
        # Each row of a and column of b is brought into the range of float16.
        up_a, down_a = power_below(tl.max(tl.abs(a), 1))
        up_b, down_b = power_below(tl.max(tl.abs(b), 0))
        zero = tl.zeros_like(total)
        sums = three_products(a * up_a[:, None], b * up_b[None, :], zero, tl.float16)
        return total + sums * down_a[:, None] * down_b[None, :]
    else:
        return tl.dot(a, b, total, input_precision=PRECISION)


@triton.jit
def view_tile(
    x,
    number,
    BATCHES: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    OFFSET: tl.constexpr,
    BATCH_STRIDE: tl.constexpr,
    ROW_STRIDE: tl.constexpr,
    DEPTH_STRIDE: tl.constexpr,
    TRIANGLE: tl.constexpr,
    PADDED_ROWS: tl.constexpr,
    PADDED_DEPTH: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_DEPTH: tl.constexpr,
):
    """Load one tile of an operand, zeros outside; return it with its first row and depth."""
    across: tl.constexpr = (PADDED_DEPTH + TILE_DEPTH - 1) // TILE_DEPTH
    down: tl.constexpr = (PADDED_ROWS + TILE_ROWS - 1) // TILE_ROWS
    batch = number // (across * down)
    row = number // across % down * TILE_ROWS
    depth = number % across * TILE_DEPTH
    rows = tl.arange(0, TILE_ROWS)[:, None]
    depths = tl.arange(0, TILE_DEPTH)[None, :]
    start = x + OFFSET + batch.to(tl.int64) * BATCH_STRIDE
    start += row.to(tl.int64) * ROW_STRIDE + depth.to(tl.int64) * DEPTH_STRIDE
    inside = (row + rows < ROWS) & (depth + depths < DEPTH)
    if TRIANGLE == 1:
        inside = inside & (row + rows <= depth + depths)
    elif TRIANGLE == 2:
        inside = inside & (row + rows >= depth + depths)
    tile = tl.load(start + rows * ROW_STRIDE + depths * DEPTH_STRIDE, mask=inside, other=0.0)
    return tile, batch * PADDED_ROWS + row, row, depth


@triton.jit
def largest(
    x,
    peaks,
    BATCHES: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    OFFSET: tl.constexpr,
    BATCH_STRIDE: tl.constexpr,
    ROW_STRIDE: tl.constexpr,
    DEPTH_STRIDE: tl.constexpr,
    TRIANGLE: tl.constexpr,
    PEAKS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_DEPTH: tl.constexpr,
):
    """Write the largest magnitude of each of PEAKS shares of an operand."""
    down: tl.constexpr = (ROWS + TILE_ROWS - 1) // TILE_ROWS
    tiles: tl.constexpr = BATCHES * down * ((DEPTH + TILE_DEPTH - 1) // TILE_DEPTH)
    peak = tl.zeros((TILE_ROWS, TILE_DEPTH), tl.float32)
    for number in range(tl.program_id(0), tiles, PEAKS):
        tile, _, _, _ = view_tile(
            x, number, BATCHES, ROWS, DEPTH, OFFSET, BATCH_STRIDE, ROW_STRIDE, DEPTH_STRIDE,
            TRIANGLE, ROWS, DEPTH, TILE_ROWS, TILE_DEPTH,
        )  # fmt: skip
        size = tl.abs(tile)
        # One infinity must not scale everything else to nothing.
        peak = tl.maximum(peak, tl.where(size < float("inf"), size, 0.0))
    tl.store(peaks + tl.program_id(0), tl.max(peak))


def peaks_of(x, view):
    """Return the largest magnitudes of PEAKS shares of an operand."""
    peaks = torch.empty((PEAKS,), dtype=torch.float32, device=x.device)
    rows, depth = (32, 128) if view["DEPTH_STRIDE"] == 1 else (128, 32)
    largest[(PEAKS,)](x, peaks, **view, PEAKS=PEAKS, TILE_ROWS=rows, TILE_DEPTH=depth)
    return peaks


@triton.jit
def wide_product(
    a,
    b,
    a_peaks,
    b_peaks,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_OFFSET: tl.constexpr,
    A_BATCH: tl.constexpr,
    A_ROW: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_OFFSET: tl.constexpr,
    B_BATCH: tl.constexpr,
    B_ROW: tl.constexpr,
    B_COLUMN: tl.constexpr,
    PEAKS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DEPTH: tl.constexpr,
    SPANS: tl.constexpr,
    STORE: tl.constexpr,
    SCALES: tl.constexpr,
):
    """A block of rows times one span of the columns.

    For float16 the operands are scaled as a whole, or line by line, which needs no search before.
    """
    down: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    across: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    share: tl.constexpr = (across + SPANS - 1) // SPANS
    span = tl.program_id(0) % SPANS
    row = tl.program_id(0) // SPANS % down
    batch = (tl.program_id(0) // (SPANS * down)).to(tl.int64)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    depth = tl.arange(0, DEPTH)
    columns = tl.arange(0, BLOCK_N)[None, :]
    a_start = a + A_OFFSET + batch * A_BATCH + row.to(tl.int64) * BLOCK_M * A_ROW
    a_tile = a_start + tl.arange(0, BLOCK_M)[:, None] * A_ROW + depth[None, :] * A_COLUMN
    left = tl.load(a_tile, mask=(rows < M) & (depth[None, :] < K), other=0.0)
    b_tile = b + B_OFFSET + batch * B_BATCH + depth[:, None] * B_ROW + columns * B_COLUMN
    if PRECISION == "fp16x3" and SCALES == "whole":
        up_a, down_a = power_below(tl.max(tl.load(a_peaks + tl.arange(0, PEAKS))))
        up_b, down_b = power_below(tl.max(tl.load(b_peaks + tl.arange(0, PEAKS))))
        left = left * up_a
    for column in range(span * share, tl.minimum(span * share + share, across)):
        start = tl.cast(column, tl.int64) * BLOCK_N
        if N % BLOCK_N == 0 and K == DEPTH:
            right = tl.load(b_tile + start * B_COLUMN)
        else:
            inside = (depth[:, None] < K) & (start + columns < N)
            right = tl.load(b_tile + start * B_COLUMN, mask=inside, other=0.0)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if PRECISION == "fp16x3" and SCALES == "whole":
            total = three_products(left, right * up_b, total, tl.float16) * down_a * down_b
        else:
            total = multiplied(left, right, total, PRECISION)
        if STORE == "descriptor":
            out.store([batch.to(tl.int32) * M + row * BLOCK_M, column * BLOCK_N], total)
        else:
            place = out + (batch * M + row * BLOCK_M) * N + start
            inner = tl.arange(0, BLOCK_M)[:, None] * N + columns
            value = total.to(out.dtype.element_ty)
            if M % BLOCK_M == 0 and N % BLOCK_N == 0:
                tl.store(place + inner, value)
            else:
                tl.store(place + inner, value, mask=(rows < M) & (start + columns < N))


def multiply(a, b, out, _extras):
    """Multiply two tensors into a third."""
    programs = BATCH * triton.cdiv(SIZES["M"], CONFIG["BLOCK_M"]) * CONFIG["SPANS"]
    a_peaks, b_peaks, target = a, b, out
    if CONFIG["PRECISION"] == "fp16x3" and CONFIG["SCALES"] == "whole":
        a_peaks, b_peaks = peaks_of(a, A_VIEW), peaks_of(b, B_VIEW)
    if CONFIG["STORE"] == "descriptor":
        block = [CONFIG["BLOCK_M"], CONFIG["BLOCK_N"]]
        target = TensorDescriptor.from_tensor(out.view(-1, SIZES["N"]), block)
    wide_product[(programs,)](
        a, b, a_peaks, b_peaks, target, **SIZES, PEAKS=PEAKS, DEPTH=DEPTH, **CONFIG
    )

in_channels = 64

out_channels = 128

class GuardedKernel(nn.Module):
    """Pointwise 2D convolution: a matrix product over channels."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv1d = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)

    def forward(self, x):
        conv1d_weight = checked("self.conv1d.weight", self.conv1d.weight, (128, 64, 1, 1), torch.float32)
        x = checked("x", x, (16, 64, 1024, 1024), torch.float32)
        out = torch.empty((16, 128, 1024, 1024), dtype=conv1d_weight.dtype, device=conv1d_weight.device)
        multiply(conv1d_weight, x, out, out)
        return out


# What follows was added by the export: the kernel above, guarded.
import torch as _torch

_EXPECTED_INPUTS = (
    ((16, 64, 1024, 1024), _torch.float32, "cuda"),
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
