"""Triton text of matrix products that read their operands in place."""

from __future__ import annotations

from operators.sketches.triton.matmul_depth_text import TILE_TEXT

__all__ = [
    "MERGE_TEXT",
    "MULTIPLY_TEXT",
    "PLACE_TEXT",
    "STORE_HEAD",
    "STORE_TEXT",
    "TILED_TEXT",
]

PLACE_TEXT = '''
@triton.jit
def place(number, TILES_M: tl.constexpr, TILES_N: tl.constexpr, GROUP: tl.constexpr):
    """Return batch, row and column of a tile.

    Neighbours share operands in the cache: GROUP rows are walked down before the next column.
    GROUP 0 starts at the last column, GROUP -1 at the last row.
    """
    batch = number // (TILES_M * TILES_N)
    number = number % (TILES_M * TILES_N)
    if GROUP == 0:
        return batch, number % TILES_M, TILES_N - 1 - number // TILES_M
    elif GROUP == -1:
        return batch, TILES_M - 1 - number // TILES_N, number % TILES_N
    else:
        group = number // (GROUP * TILES_N)
        height = tl.minimum(TILES_M - group * GROUP, GROUP)
        inside = number % (GROUP * TILES_N)
        return batch, group * GROUP + inside % height, inside // height


@triton.jit
def depth_range(
    row,
    column,
    K: tl.constexpr,
    A_TRIANGLE: tl.constexpr,
    B_TRIANGLE: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Return where the depth of a tile starts and ends, zeros of triangles left out.

    Triangles are 0 for none, 1 for upper, 2 for lower.
    """
    first = 0
    last = K
    if A_TRIANGLE == 1:
        first = tl.maximum(first, row * BLOCK_M)
    elif A_TRIANGLE == 2:
        last = tl.minimum(last, (row + 1) * BLOCK_M)
    if B_TRIANGLE == 1:
        last = tl.minimum(last, (column + 1) * BLOCK_N)
    elif B_TRIANGLE == 2:
        first = tl.maximum(first, column * BLOCK_N)
    if OUT_TRIANGLE == 1:
        last = tl.where((column + 1) * BLOCK_N <= row * BLOCK_M, first, last)
    elif OUT_TRIANGLE == 2:
        last = tl.where((row + 1) * BLOCK_M <= column * BLOCK_N, first, last)
    return first, last
'''
"""Where a tile lies, and which part of the depth it needs."""

STORE_HEAD = """
@triton.jit
def store_tile(
    out,
    extras,
    total,
    batch,
    row,
    column,
    M: tl.constexpr,
    N: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):"""
"""What a function takes that writes a tile; its text goes on with its docstring."""

STORE_TEXT = f'''{STORE_HEAD}
    """Write a tile of a row-major result; there are no other tensors than that."""
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    if OUT_TRIANGLE == 1:
        total = tl.where(rows <= columns, total, 0.0)
    elif OUT_TRIANGLE == 2:
        total = tl.where(rows >= columns, total, 0.0)
    start = out + (batch.to(tl.int64) * M + row * BLOCK_M) * N + column * BLOCK_N
    inside = tl.arange(0, BLOCK_M)[:, None] * N + tl.arange(0, BLOCK_N)[None, :]
    value = total.to(out.dtype.element_ty)
    if M % BLOCK_M == 0 and N % BLOCK_N == 0:
        tl.store(start + inside, value)
    else:
        tl.store(start + inside, value, mask=(rows < M) & (columns < N))
'''
"""How a tile is written."""

MERGE_TEXT = '''
@triton.jit
def merge(parts, out, COUNT: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Add the parts of a split depth, always in the same order."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < COUNT
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(PARTS):
        total += tl.load(parts + part * COUNT + place, mask=mask, other=0.0)
    tl.store(out + place, total.to(out.dtype.element_ty), mask=mask)
'''
"""The second kernel where the depth is split."""

TILED_TEXT = f'''{TILE_TEXT}

@triton.jit
def product(
    a,
    b,
    a_peaks,
    b_peaks,
    out,
    extras,
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
    A_TRIANGLE: tl.constexpr,
    B_TRIANGLE: tl.constexpr,
    OUT_TRIANGLE: tl.constexpr,
    PEAKS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    SPLIT_K: tl.constexpr,
    CHAIN: tl.constexpr,
):
    """One tile of the result, or of one part of the depth."""
    part = tl.program_id(1)
    batch, row, column = place(
        tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP
    )
    first, last = depth_range(
        row, column, K, A_TRIANGLE, B_TRIANGLE, OUT_TRIANGLE, BLOCK_M, BLOCK_N
    )
    first = first // BLOCK_K
    last = tl.cdiv(last, BLOCK_K)
    if SPLIT_K > 1:
        steps = tl.cdiv(last - first, SPLIT_K)
        first = first + part * steps
        last = tl.minimum(last, first + steps)
    total = tile_total(
        a, b, a_peaks, b_peaks, batch, row, column, first, last, M, N, K, A_OFFSET, A_BATCH, A_ROW,
        A_COLUMN, B_OFFSET, B_BATCH, B_ROW, B_COLUMN, PEAKS, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
        CHAIN,
    )  # fmt: skip
    if SPLIT_K > 1:
        batches = tl.num_programs(0) // (tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N))
        batch = part * batches + batch
    store_tile(out, extras, total, batch, row, column, M, N, OUT_TRIANGLE, BLOCK_M, BLOCK_N)


def tile_choices():
    """Return what every kernel over tiles takes of the configuration."""
    return {{name: CONFIG[name] for name in CONFIG if name not in ("SPLIT_K", "STREAM")}}


def multiply_tiles(a, b, out, extras, batch, sizes, a_view, b_view):
    """Multiply two operands, of which views tell where they lie, into a row-major tensor."""
    split = CONFIG["SPLIT_K"]
    tiles = triton.cdiv(sizes["M"], CONFIG["BLOCK_M"]) * triton.cdiv(sizes["N"], CONFIG["BLOCK_N"])
    parts, a_peaks, b_peaks = out, a, b
    if CONFIG["PRECISION"] == "fp16x3":
        a_peaks, b_peaks = peaks_of(a, a_view), peaks_of(b, b_view)
    if split > 1:
        parts = torch.empty((split, *out.shape), dtype=torch.float32, device=out.device)
    product[(batch * tiles, split)](
        a, b, a_peaks, b_peaks, parts, extras, **sizes, PEAKS=PEAKS, SPLIT_K=split,
        **tile_choices(),
    )  # fmt: skip
    if split > 1:
        count = out.numel()
        merge[(triton.cdiv(count, 512),)](parts, out, COUNT=count, PARTS=split, BLOCK=512)
'''
"""One kernel that reads both operands by their strides and splits them tile by tile."""

MULTIPLY_TEXT = '''
def multiply(a, b, out, extras):
    """Multiply two tensors into a third."""
    multiply_tiles(a, b, out, extras, BATCH, SIZES, A_VIEW, B_VIEW)
'''
"""`multiply` where no tile is shared."""
