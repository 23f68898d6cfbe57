"""Triton text that splits an operand of a product into planes of narrow numbers beforehand.

A plane holds one part of every number, rows along the depth of the product, padded with zeros to
whole tiles: the product then needs no masks and no conversion, and two planes of 16 bits take as
many bytes as float32.
"""

from __future__ import annotations

__all__ = ["PACKING_TEXT", "PEAKS_TEXT"]

PEAKS_TEXT = '''
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
def find_peaks(
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
    find_peaks[(PEAKS,)](x, peaks, **view, PEAKS=PEAKS, TILE_ROWS=rows, TILE_DEPTH=depth)
    return peaks
'''
"""Triton functions over tiles of an operand, and `peaks_of`, which needs `PEAKS`."""

PACKING_TEXT = '''
@triton.jit
def store_parts(tile, planes, bytes8, place, plane, inside, PRECISION: tl.constexpr):
    """Write the parts of float32 numbers; for float16 they are scaled to below 2^15.

    Parts in float8 are scaled once more, so that the largest are near 2^8.
    """
    if PRECISION == "bf16x3" or PRECISION == "bf16x6":
        high, rest = halved(tile, tl.bfloat16)
        tl.store(planes + place, high, mask=inside)
        high, rest = halved(rest, tl.bfloat16)
        tl.store(planes + plane + place, high, mask=inside)
        if PRECISION == "bf16x6":
            tl.store(planes + 2 * plane + place, rest.to(tl.bfloat16), mask=inside)
    else:
        high, rest = halved(tile, tl.float16)
        tl.store(planes + place, high, mask=inside)
        if PRECISION == "fp16fp8":
            tl.store(bytes8 + place, (tile * 0.0078125).to(tl.float8e4nv), mask=inside)
            tl.store(bytes8 + plane + place, (rest * 32.0).to(tl.float8e4nv), mask=inside)
        else:
            tl.store(planes + plane + place, rest.to(tl.float16), mask=inside)


@triton.jit
def pack(
    x,
    peaks,
    scale,
    planes,
    bytes8,
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
    PRECISION: tl.constexpr,
    PEAKS: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    TILE_DEPTH: tl.constexpr,
):
    """Split one tile into its planes; the inverse of the scale for float16 goes to `scale`."""
    tile, flat, row, depth = view_tile(
        x, tl.program_id(0), BATCHES, ROWS, DEPTH, OFFSET, BATCH_STRIDE, ROW_STRIDE, DEPTH_STRIDE,
        TRIANGLE, PADDED_ROWS, PADDED_DEPTH, TILE_ROWS, TILE_DEPTH,
    )  # fmt: skip
    rows = tl.arange(0, TILE_ROWS)[:, None]
    depths = tl.arange(0, TILE_DEPTH)[None, :]
    inside = (row + rows < PADDED_ROWS) & (depth + depths < PADDED_DEPTH)
    place = (flat + rows).to(tl.int64) * PADDED_DEPTH + depth + depths
    plane: tl.constexpr = BATCHES * PADDED_ROWS * PADDED_DEPTH
    if PRECISION == "fp16x3" or PRECISION == "fp16fp8":
        up, down = power_below(tl.max(tl.load(peaks + tl.arange(0, PEAKS))))
        tl.store(scale, down)
        tile = tile * up
    store_parts(tile, planes, bytes8, place, plane, inside, PRECISION)


PACK_TILE = 64


def planes_for(batches, rows, depth, device):
    """Return room for the planes of an operand: of 16 bits, and of 8 bits or None."""
    precision = CONFIG["PRECISION"]
    kind = torch.bfloat16 if precision in ("bf16x3", "bf16x6") else torch.float16
    count = {"bf16x6": 3, "fp16fp8": 1}.get(precision, 2)
    planes = torch.empty((count * batches * rows, depth), dtype=kind, device=device)
    if precision != "fp16fp8":
        return planes, None
    shape = (2 * batches * rows, depth)
    return planes, torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)


def padded(size, block):
    """Return a size rounded up to whole blocks."""
    return triton.cdiv(size, block) * block


def padded_depth(size):
    """Return a depth rounded up to whole steps; a step of float8 is twice as deep."""
    return padded(size, CONFIG["BLOCK_K"] * (2 if CONFIG["PRECISION"] == "fp16fp8" else 1))


def packed(x, view, block_rows):
    """Split an operand.

    Args:
        x: The tensor that it lies in.
        view: Its sizes and strides.
        block_rows: Rows are padded to a multiple of this.

    Returns:
        Planes of 16 bits; planes of 8 bits or None; the inverse of the scale; how many matrices.
    """
    batches = view["BATCHES"]
    rows, depth = padded(view["ROWS"], block_rows), padded_depth(view["DEPTH"])
    planes, bytes8 = planes_for(batches, rows, depth, x.device)
    scale = torch.empty((1,), dtype=torch.float32, device=x.device)
    peaks = peaks_of(x, view) if planes.dtype is torch.float16 else scale
    tiles = batches * triton.cdiv(rows, PACK_TILE) * triton.cdiv(depth, PACK_TILE)
    pack[(tiles,)](
        x, peaks, scale, planes, bytes8, **view, PADDED_ROWS=rows, PADDED_DEPTH=depth,
        PRECISION=CONFIG["PRECISION"], PEAKS=PEAKS, TILE_ROWS=PACK_TILE, TILE_DEPTH=PACK_TILE,
    )  # fmt: skip
    return planes, bytes8, scale, batches
'''
"""Triton functions and `packed`, which needs `PRECISION_TEXT` and `PEAKS_TEXT`."""
