"""Triton text of scans along rows or columns, in tiles with a carry."""

from __future__ import annotations

__all__ = ["PARTS_KERNEL", "SCAN_FUNCTIONS", "SCAN_KERNEL"]

SCAN_FUNCTIONS = '''
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
def put(
    out_ptr, base, column, row_inside, start, carry, x, SHIFT: tl.constexpr, FULL: tl.constexpr,
    CACHE: tl.constexpr,
):
    """Store the scan of a tile, after what comes before it."""
    y = joined(carry, running(x))
    place = base + column * INNER
    if EXCLUSIVE and SHIFT == 0:
        first_one = row_inside & (column == start)
        tl.store(out_ptr + place, carry + tl.zeros_like(y), mask=first_one)
        ahead = row_inside & (column + 1 < LENGTH) & (column < start + x.shape[1] - 1)
        tl.store(out_ptr + (place + INNER), y, mask=ahead, cache_modifier=CACHE)
    elif FULL:
        tl.store(out_ptr + place, y, cache_modifier=CACHE)
    else:
        inside = row_inside & (column < LENGTH)
        tl.store(out_ptr + place, y, mask=inside, cache_modifier=CACHE)
'''
"""Module constants LENGTH, INNER, PRODUCT, REVERSE, EXCLUSIVE, MASKED, FIRST (0 or 1) come before
it, as `tl.constexpr`. SHIFT is 1 where an exclusive scan reads one column to the left."""

PARTS_KERNEL = '''
@triton.jit
def parts_kernel(
    x_ptr, mask_ptr, parts_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr, PARTS: tl.constexpr,
    SPAN: tl.constexpr, SHIFT: tl.constexpr, STAGES: tl.constexpr,
):
    """Reduce one part of ROWS rows."""
    FULL: tl.constexpr = INNER % ROWS == 0 and LENGTH % (PARTS * BLOCK) == 0
    part = tl.program_id(0) % PARTS
    strips = (INNER + ROWS - 1) // ROWS
    outer = (tl.program_id(0) // PARTS // strips).to(tl.int64)
    inner = (tl.program_id(0) // PARTS % strips) * ROWS + tl.arange(0, ROWS)[:, None]
    row_inside = inner < INNER
    base = outer * (LENGTH * INNER) + inner
    carry = tl.full((ROWS, 1), FIRST, tl.float32)
    end = tl.minimum(part * SPAN + SPAN, LENGTH)
    for start in tl.range(part * SPAN, end, BLOCK, num_stages=STAGES):
        column = start + tl.arange(0, BLOCK)[None, :]
        x = taken(x_ptr, mask_ptr, base, column, row_inside, SHIFT, FULL)
        carry = joined(carry, whole(x))
    place = (outer * INNER + inner) * PARTS + part
    tl.store(parts_ptr + place, carry, mask=row_inside)
'''
"""The first of two kernels where rows are split."""

SCAN_KERNEL = '''
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
        x = taken(x_ptr, mask_ptr, base, column, row_inside, SHIFT, FULL)
        put(out_ptr, base, column, row_inside, start, carry, x, SHIFT, FULL, CACHE)
        carry = joined(carry, whole(x))
'''
"""The kernel that scans; `parts_ptr` holds what the other one found where PARTS > 1."""
