"""Triton text of attention: online softmax, and softmax of scores that are kept."""

from __future__ import annotations

__all__ = ["ONLINE_TEXT", "STAGED_PLANES_TEXT", "STAGED_TILES_TEXT"]

ONLINE_TEXT = '''
@triton.jit
def rows_of(x, first, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ROW_STRIDE: tl.constexpr,
            COLUMN_STRIDE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """Load HEIGHT rows of a matrix, from one on, zeros outside."""
    rows = first + tl.arange(0, HEIGHT)[:, None]
    columns = tl.arange(0, WIDTH)[None, :]
    start = x + tl.cast(first, tl.int64) * ROW_STRIDE
    place = tl.arange(0, HEIGHT)[:, None] * ROW_STRIDE + columns * COLUMN_STRIDE
    if ROWS % HEIGHT == 0 and COLUMNS == WIDTH:
        return tl.load(start + place)
    else:
        return tl.load(start + place, mask=(rows < ROWS) & (columns < COLUMNS), other=0.0)


@triton.jit
def attention(
    q,
    k,
    v,
    out,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDE: tl.constexpr,
    Q_OFFSET: tl.constexpr,
    Q_BATCH: tl.constexpr,
    Q_ROW: tl.constexpr,
    Q_COLUMN: tl.constexpr,
    K_OFFSET: tl.constexpr,
    K_BATCH: tl.constexpr,
    K_ROW: tl.constexpr,
    K_COLUMN: tl.constexpr,
    V_OFFSET: tl.constexpr,
    V_BATCH: tl.constexpr,
    V_ROW: tl.constexpr,
    V_COLUMN: tl.constexpr,
    SCALE: tl.constexpr,
    SAFE: tl.constexpr,
    REACH: tl.constexpr,
    CAUSAL: tl.constexpr,
    FULL_DEPTH: tl.constexpr,
    FULL_WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """A block of queries against all keys; a new maximum rescales what was summed before it.

    Where CAUSAL, query i sees the keys up to i + REACH; blocks of queries that see the most start
    first, and blocks of keys that none of them sees are left out.
    """
    blocks: tl.constexpr = tl.cdiv(QUERIES, BLOCK_M)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    if CAUSAL:
        block = blocks - 1 - block
    first = block * BLOCK_M
    query = rows_of(
        q + Q_OFFSET + batch * Q_BATCH, first, QUERIES, DEPTH, Q_ROW, Q_COLUMN, BLOCK_M, FULL_DEPTH
    )
    k += K_OFFSET + batch * K_BATCH
    v += V_OFFSET + batch * V_BATCH
    peak = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    weight = tl.zeros((BLOCK_M,), tl.float32)
    total = tl.zeros((BLOCK_M, FULL_WIDE), tl.float32)
    last = first + tl.arange(0, BLOCK_M) + REACH
    end = tl.minimum(KEYS, first + BLOCK_M + REACH) if CAUSAL else KEYS
    for start in tl.range(0, end, BLOCK_N):
        key = rows_of(k, start, KEYS, DEPTH, K_ROW, K_COLUMN, BLOCK_N, FULL_DEPTH)
        zero = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        scores = multiplied(query, tl.trans(key), zero, PRECISION) * SCALE
        if KEYS % BLOCK_N != 0:
            inside = start + tl.arange(0, BLOCK_N)[None, :] < KEYS
            scores = tl.where(inside, scores, -float("inf"))
        if CAUSAL:
            seen = start + tl.arange(0, BLOCK_N)[None, :] <= last[:, None]
            scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(peak, tl.max(scores, 1))
        base = tl.where(higher == -float("inf"), 0.0, higher)
        share = tl.exp(scores - base[:, None])
        kept = tl.exp(peak - base)
        weight = weight * kept + tl.sum(share, 1)
        value = rows_of(v, start, KEYS, WIDE, V_ROW, V_COLUMN, BLOCK_N, FULL_WIDE)
        if PRECISION == "native":
            share = share.to(value.dtype)
        total = multiplied(share, value, total * kept[:, None], PRECISION)
        peak = higher
    if SAFE:
        weight = tl.where((weight == 0.0) & (peak == -float("inf")), 1.0, weight)
    total = total / weight[:, None]
    rows = tl.arange(0, BLOCK_M)[:, None]
    columns = tl.arange(0, FULL_WIDE)[None, :]
    place = out + (batch * QUERIES + first) * WIDE + rows * WIDE + columns
    mask = (first + rows < QUERIES) & (columns < WIDE)
    tl.store(place, total.to(out.dtype.element_ty), mask=mask)


def attend(q, k, v, out):
    """Write softmax(q k) v."""
    programs = BATCH * triton.cdiv(SIZES["QUERIES"], CONFIG["BLOCK_M"])
    attention[(programs,)](q, k, v, out, **SIZES, SCALE=SCALE, **CONFIG)
'''
"""One kernel, scores in registers; needs `PRECISION_TEXT`, `BATCH`, `SIZES` and `SCALE`."""

_SOFTMAX_TEXT = '''
@triton.jit
def softmax_row(scores, row, QUERIES: tl.constexpr, KEYS: tl.constexpr, SAFE: tl.constexpr,
                REACH: tl.constexpr, SCALE: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """Load the scores that a query sees, up to REACH beyond its own; return its weights."""
    columns = tl.arange(0, WIDTH)
    inside = columns < KEYS
    x = tl.load(scores + row * KEYS + columns, mask=inside, other=-float("inf")) * SCALE
    if REACH + 1 < KEYS:
        x = tl.where(columns <= row % QUERIES + REACH, x, -float("inf"))
    peak = tl.max(x, 0)
    share = tl.exp(x - tl.where(peak == -float("inf"), 0.0, peak))
    weight = tl.sum(share, 0)
    if SAFE:
        weight = tl.where((weight == 0.0) & (peak == -float("inf")), 1.0, weight)
    return tl.where(inside, share / weight, 0.0)
'''

STAGED_PLANES_TEXT = (
    _SOFTMAX_TEXT
    + '''
@triton.jit
def softmax_rows(
    scores,
    scale,
    planes,
    bytes8,
    BATCHES: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    PADDED_ROWS: tl.constexpr,
    PADDED_DEPTH: tl.constexpr,
    SCALE: tl.constexpr,
    SAFE: tl.constexpr,
    REACH: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Turn one row of scores into weights, written as planes; scaled by 2^15 for float16."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    share = softmax_row(scores, row, QUERIES, KEYS, SAFE, REACH, SCALE, WIDTH)
    if PRECISION == "fp16x3" or PRECISION == "fp16fp8":
        share = share * 32768.0
        tl.store(scale, 0.000030517578125)
    place = (row // QUERIES * PADDED_ROWS + row % QUERIES) * PADDED_DEPTH + columns
    plane: tl.constexpr = BATCHES * PADDED_ROWS * PADDED_DEPTH
    store_parts(share, planes, bytes8, place, plane, columns < PADDED_DEPTH, PRECISION)


def attend(q, k, v, out):
    """Write softmax(q k) v: scores of all queries, weights of all queries, sums of values."""
    batch, queries, keys = BATCH, SCORE_SIZES["M"], SCORE_SIZES["N"]
    left = packed(q, Q_VIEW, CONFIG["BLOCK_M"])
    right = packed(k, K_VIEW, CONFIG["BLOCK_N"])
    scores = torch.empty((batch, queries, keys), dtype=torch.float32, device=out.device)
    multiply_planes(left, right, scores, scores, SCORE_SIZES)
    rows, depth = padded(queries, CONFIG["BLOCK_M"]), padded_depth(keys)
    planes, bytes8 = planes_for(batch, rows, depth, out.device)
    scale = torch.empty((1,), dtype=torch.float32, device=out.device)
    softmax_rows[(batch * queries,)](
        scores, scale, planes, bytes8, BATCHES=batch, QUERIES=queries, KEYS=keys,
        PADDED_ROWS=rows, PADDED_DEPTH=depth, SCALE=SCALE, SAFE=SAFE, REACH=REACH,
        PRECISION=CONFIG["PRECISION"], WIDTH=triton.next_power_of_2(depth),
        num_warps=CONFIG["SOFTMAX_WARPS"],
    )  # fmt: skip
    values = packed(v, V_VIEW, CONFIG["BLOCK_N"])
    multiply_planes((planes, bytes8, scale, batch), values, out, out, OUT_SIZES)
'''
)
"""Two products of planes with a softmax between them; needs `PACKING_TEXT` and `PACKED_TEXT`."""

STAGED_TILES_TEXT = (
    _SOFTMAX_TEXT
    + '''
@triton.jit
def softmax_of_rows(
    scores,
    weights,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    SCALE: tl.constexpr,
    SAFE: tl.constexpr,
    REACH: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Turn one row of scores into weights, written in their place or elsewhere."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    share = softmax_row(scores, row, QUERIES, KEYS, SAFE, REACH, SCALE, WIDTH)
    place = weights + row * KEYS + columns
    tl.store(place, share.to(weights.dtype.element_ty), mask=columns < KEYS)


def attend(q, k, v, out):
    """Write softmax(q k) v: scores of all queries, weights of all queries, sums of values."""
    queries, keys = SCORE_SIZES["M"], SCORE_SIZES["N"]
    scores = torch.empty((BATCH, queries, keys), dtype=torch.float32, device=out.device)
    multiply_tiles(q, k, scores, scores, BATCH, SCORE_SIZES, Q_VIEW, K_VIEW)
    weights = scores if out.dtype is torch.float32 else torch.empty_like(scores, dtype=out.dtype)
    softmax_of_rows[(BATCH * queries,)](
        scores, weights, QUERIES=queries, KEYS=keys, SCALE=SCALE, SAFE=SAFE, REACH=REACH,
        WIDTH=triton.next_power_of_2(keys), num_warps=SOFTMAX_WARPS,
    )  # fmt: skip
    multiply_tiles(weights, v, out, out, BATCH, OUT_SIZES, SCORE_VIEW, V_VIEW)
'''
)
"""The same by tiles that are split in the loop; needs `TILED_TEXT` and what that needs."""
