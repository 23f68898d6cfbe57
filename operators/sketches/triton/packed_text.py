"""Triton text of a product of planes (see `packing_text`)."""

from __future__ import annotations

from operators.sketches.triton.kept_text import KEPT_TEXT

__all__ = ["MULTIPLY_PACKED_TEXT", "OPERANDS_TEXT", "PACKED_TEXT"]

PACKED_TEXT = '''
@triton.jit
def chain(
    a,
    b,
    a_row,
    b_row,
    first,
    begin,
    end,
    small,
    total,
    A_PLANE: tl.constexpr,
    B_PLANE: tl.constexpr,
    TERMS: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Add products of planes to a total, from one step to another, all sums on tensor cores.

    The first `small` steps are products of other than two first planes, TERMS for each part of the
    depth: 2 for two planes, 5 for three (the smallest products are left out), 0 for none. In the
    steps after them the first planes are multiplied.
    """
    for step in range(begin, end):
        left = 0
        right = 0
        depth = first + step - small
        if TERMS > 0:
            term = step % TERMS
            if TERMS == 5:
                left = term % 3
                right = 2 - term // 3 - left
            else:
                left = term
                right = 1 - term
            left = tl.where(step < small, left, 0)
            right = tl.where(step < small, right, 0)
            depth = tl.where(step < small, first + step // TERMS, depth)
        tile = b.load([b_row + right * B_PLANE, depth * BLOCK_K])
        total = tl.dot(a.load([a_row + left * A_PLANE, depth * BLOCK_K]), tile.T, total)
    return total


@triton.jit
def add_tile(
    out,
    part,
    batch,
    row,
    column,
    M: tl.constexpr,
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Add to a tile that this program alone writes; it does not wait for the sums."""
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    start = out + (batch.to(tl.int64) * M + row * BLOCK_M) * N + column * BLOCK_N
    inside = tl.arange(0, BLOCK_M)[:, None] * N + tl.arange(0, BLOCK_N)[None, :]
    tl.atomic_add(start + inside, part, mask=(rows < M) & (columns < N), sem="relaxed")


@triton.jit
def packed_total(
    a,
    b,
    a8,
    b8,
    a_scale,
    b_scale,
    out,
    extras,
    batch,
    row,
    column,
    first,
    last,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_BATCHES: tl.constexpr,
    B_BATCHES: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    CHAIN: tl.constexpr,
    SUMS: tl.constexpr,
):
    """Sum a part of the depth of one tile of the result.

    Tensor cores cut sums off instead of rounding them, which adds up where they have one sign. So
    the small products come first, and after CHAIN numbers of the depth what was summed is added
    to the total in float32: in registers, or in memory where two totals do not fit into them.
    Then it is written here, where there is more than one chain.
    """
    down: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    across: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    a_row = row * BLOCK_M
    b_row = column * BLOCK_N
    if A_BATCHES > 1:
        a_row += batch * (down * BLOCK_M)
    if B_BATCHES > 1:
        b_row += batch * (across * BLOCK_N)
    a_plane: tl.constexpr = A_BATCHES * down * BLOCK_M
    b_plane: tl.constexpr = B_BATCHES * across * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    terms: tl.constexpr = 5 if PRECISION == "bf16x6" else (0 if PRECISION == "fp16fp8" else 2)
    if PRECISION == "fp16fp8":
        low = first // (2 * BLOCK_K)
        steps = ((last + 2 * BLOCK_K - 1) // (2 * BLOCK_K) - low) * 2
        total = chain(
            a8, b8, a_row, b_row, low, 0, steps, steps, total, a_plane, b_plane, 2, 2 * BLOCK_K
        )
        total = total * 4.0
    low = first // BLOCK_K
    steps = (last + BLOCK_K - 1) // BLOCK_K - low
    small = steps * terms
    rounded: tl.constexpr = CHAIN // BLOCK_K
    end = small + tl.minimum(steps, rounded)
    total = chain(
        a, b, a_row, b_row, low, 0, end, small, total, a_plane, b_plane, terms, BLOCK_K
    )
    down_a = 1.0
    down_b = 1.0
    if PRECISION == "fp16fp8" or PRECISION == "fp16x3":
        down_a = tl.load(a_scale)
        down_b = tl.load(b_scale)
    if SUMS == "memory" and K > CHAIN:
        total = total * down_a * down_b
        store_tile(out, extras, total, batch, row, column, M, N, OUT_TRIANGLE, BLOCK_M, BLOCK_N)
        tl.debug_barrier()
    if K > CHAIN:
        for begin in range(end, small + steps, rounded):
            end = tl.minimum(begin + rounded, small + steps)
            part = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
            part = chain(
                a, b, a_row, b_row, low, begin, end, small, part, a_plane, b_plane, 0, BLOCK_K
            )
            if SUMS == "memory":
                add_tile(out, part * down_a * down_b, batch, row, column, M, N, BLOCK_M, BLOCK_N)
            else:
                total += part
    if SUMS == "registers" or K <= CHAIN:
        total = total * down_a * down_b
    return total


@triton.jit
def packed_tile(
    number,
    a,
    b,
    a8,
    b8,
    a_scale,
    b_scale,
    out,
    extras,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_BATCHES: tl.constexpr,
    B_BATCHES: tl.constexpr,
    A_TRIANGLE: tl.constexpr,
    B_TRIANGLE: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    CHAIN: tl.constexpr,
    SUMS: tl.constexpr,
):
    """Compute and write one tile of the result."""
    batch, row, column = place(number, tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    first, last = depth_range(
        row, column, K, A_TRIANGLE, B_TRIANGLE, OUT_TRIANGLE, BLOCK_M, BLOCK_N
    )
    total = packed_total(
        a, b, a8, b8, a_scale, b_scale, out, extras, batch, row, column, first, last, M, N, K,
        A_BATCHES, B_BATCHES, OUT_TRIANGLE, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, CHAIN, SUMS,
    )  # fmt: skip
    if SUMS == "registers" or K <= CHAIN:
        store_tile(out, extras, total, batch, row, column, M, N, OUT_TRIANGLE, BLOCK_M, BLOCK_N)


@triton.jit
def packed_product(
    a,
    b,
    a8,
    b8,
    a_scale,
    b_scale,
    out,
    extras,
    TILES: tl.constexpr,
    PROGRAMS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_BATCHES: tl.constexpr,
    B_BATCHES: tl.constexpr,
    A_TRIANGLE: tl.constexpr,
    B_TRIANGLE: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    CHAIN: tl.constexpr,
    SUMS: tl.constexpr,
):
    """One tile for each program, or as many programs as processors that go from tile to tile."""
    if PROGRAMS == TILES:
        packed_tile(
            tl.program_id(0), a, b, a8, b8, a_scale, b_scale, out, extras, M, N, K, A_BATCHES,
            B_BATCHES, A_TRIANGLE, B_TRIANGLE, OUT_TRIANGLE, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
            GROUP, CHAIN, SUMS,
        )  # fmt: skip
    else:
        for number in range(tl.program_id(0), TILES, PROGRAMS):
            packed_tile(
                number, a, b, a8, b8, a_scale, b_scale, out, extras, M, N, K, A_BATCHES,
                B_BATCHES, A_TRIANGLE, B_TRIANGLE, OUT_TRIANGLE, PRECISION, BLOCK_M, BLOCK_N,
                BLOCK_K, GROUP, CHAIN, SUMS,
            )  # fmt: skip


def described(operand, rows):
    """Return what `packed` returned, with descriptors of tiles in place of the planes."""
    planes, bytes8, scale, batches = operand
    depth = CONFIG["BLOCK_K"]
    eighths = None if bytes8 is None else TensorDescriptor.from_tensor(bytes8, [rows, 2 * depth])
    return TensorDescriptor.from_tensor(planes, [rows, depth]), eighths, scale, batches


def multiply_planes(left, right, out, extras, sizes):
    """Multiply two operands that `packed` returned, into a row-major tensor of matrices."""
    block_m, block_n = CONFIG["BLOCK_M"], CONFIG["BLOCK_N"]
    a, a8, a_scale, a_batches = described(left, block_m)
    b, b8, b_scale, b_batches = described(right, block_n)
    tiles = triton.cdiv(sizes["M"], block_m) * triton.cdiv(sizes["N"], block_n)
    tiles *= out.numel() // (sizes["M"] * sizes["N"])
    programs = min(CONFIG["PROGRAMS"], tiles) or tiles
    packed_product[(programs,)](
        a,
        b,
        a8,
        b8,
        a_scale,
        b_scale,
        out,
        extras,
        TILES=tiles,
        PROGRAMS=programs,
        **sizes,
        A_BATCHES=a_batches,
        B_BATCHES=b_batches,
        PRECISION=CONFIG["PRECISION"],
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=CONFIG["BLOCK_K"],
        GROUP=CONFIG["GROUP"],
        CHAIN=CONFIG["CHAIN"],
        SUMS=CONFIG["SUMS"],
        num_warps=CONFIG["num_warps"],
        num_stages=CONFIG["num_stages"],
    )
'''
"""The kernel and `multiply_planes`."""

OPERANDS_TEXT = f'''{KEPT_TEXT}

def packed_operands(a, b):
    """Return both operands, split; weights are split once for each version of them."""
    left = kept("a", a, lambda it: packed(it, A_VIEW, CONFIG["BLOCK_M"]))
    return left, kept("b", b, lambda it: packed(it, B_VIEW, CONFIG["BLOCK_N"]))
'''
"""`packed_operands`; needs `PACKING_TEXT`, and the views."""

MULTIPLY_PACKED_TEXT = '''
def multiply(a, b, out, extras):
    """Multiply two tensors into a third."""
    multiply_planes(*packed_operands(a, b), out, extras, SIZES)
'''
"""`multiply`, of two tensors as they are."""
