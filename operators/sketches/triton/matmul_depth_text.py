"""Triton text of the sum that a tile of a product is, over all of the depth or some of it."""

from __future__ import annotations

__all__ = ["DEPTH_TEXT", "TILE_TEXT"]

DEPTH_TEXT = '''
@triton.jit
def step_product(
    a_tile,
    b_tile,
    a_inside,
    b_inside,
    step,
    total,
    up_a,
    up_b,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_ROW: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Load what one step needs; add its product to a total."""
    start = tl.cast(step, tl.int64) * BLOCK_K
    depth = step * BLOCK_K + tl.arange(0, BLOCK_K)
    if M % BLOCK_M == 0 and K % BLOCK_K == 0:
        left = tl.load(a_tile + start * A_COLUMN)
    else:
        mask = a_inside & (depth[None, :] < K)
        left = tl.load(a_tile + start * A_COLUMN, mask=mask, other=0.0)
    if N % BLOCK_N == 0 and K % BLOCK_K == 0:
        right = tl.load(b_tile + start * B_ROW)
    else:
        mask = b_inside & (depth[:, None] < K)
        right = tl.load(b_tile + start * B_ROW, mask=mask, other=0.0)
    if PRECISION == "fp16x3":
        return three_products(left * up_a, right * up_b, total, tl.float16)
    else:
        return multiplied(left, right, total, PRECISION)


@triton.jit
def depth_total(
    a_tile,
    b_tile,
    a_inside,
    b_inside,
    first,
    last,
    up_a,
    up_b,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_ROW: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CHAIN: tl.constexpr,
):
    """Sum the products of some steps of the depth.

    Tensor cores cut sums off instead of rounding them: after CHAIN numbers of the depth (0: after
    each step) what they summed is added in float32.
    """
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    if CHAIN == 0:
        for step in range(first, last):
            sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            total += step_product(
                a_tile, b_tile, a_inside, b_inside, step, sums, up_a, up_b, M, N, K, A_COLUMN,
                B_ROW, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
            )  # fmt: skip
    else:
        for begin in range(first, last, CHAIN // BLOCK_K):
            sums = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            for step in range(begin, tl.minimum(begin + CHAIN // BLOCK_K, last)):
                sums = step_product(
                    a_tile, b_tile, a_inside, b_inside, step, sums, up_a, up_b, M, N, K, A_COLUMN,
                    B_ROW, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
                )  # fmt: skip
            total += sums
    return total
'''
"""The depth of a tile of the result, step by step, from operands that lie anywhere."""

TILE_TEXT = f'''{DEPTH_TEXT}

@triton.jit
def tile_total(
    a,
    b,
    a_peaks,
    b_peaks,
    batch,
    row,
    column,
    first,
    last,
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
    BLOCK_K: tl.constexpr,
    CHAIN: tl.constexpr,
):
    """Sum some steps of the depth of one tile of the result."""
    wide = batch.to(tl.int64)
    rows = tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    depth = tl.arange(0, BLOCK_K)
    a_start = a + A_OFFSET + wide * A_BATCH + row.to(tl.int64) * BLOCK_M * A_ROW
    b_start = b + B_OFFSET + wide * B_BATCH + column.to(tl.int64) * BLOCK_N * B_COLUMN
    a_tile = a_start + rows * A_ROW + depth[None, :] * A_COLUMN
    b_tile = b_start + depth[:, None] * B_ROW + columns * B_COLUMN
    a_inside = row * BLOCK_M + rows < M
    b_inside = column * BLOCK_N + columns < N
    up_a = 1.0
    up_b = 1.0
    if PRECISION == "fp16x3":
        up_a, down_a = power_below(tl.max(tl.load(a_peaks + tl.arange(0, PEAKS))))
        up_b, down_b = power_below(tl.max(tl.load(b_peaks + tl.arange(0, PEAKS))))
    total = depth_total(
        a_tile, b_tile, a_inside, b_inside, first, last, up_a, up_b, M, N, K, A_COLUMN, B_ROW,
        PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, CHAIN,
    )  # fmt: skip
    if PRECISION == "fp16x3":
        total = total * down_a * down_b
    return total
'''
"""The same for a tile, from operands by their strides; needs `PRECISION_TEXT`."""
