"""Triton text that lays weights and inputs of a convolution out for matrix products.

Numbers become narrow on the way (see `convolution_form` for the layout):

    native    16-bit inputs as they are
    fp16      float16 after scaling by a power of two: 11 bits, as TF32
    bf16x3    two parts in bfloat16: 17 bits in three products
    fp16x3    two parts in float16, scaled: 22 bits in three products
    bf16x6    three parts in bfloat16: 24 bits in six products

The scale of an input depends on its largest magnitude, which is known only once all of it has been
read. Therefore an input is laid out without a scale first, and once more where its magnitudes turn
out to be of no use in float16.
"""

from __future__ import annotations

from operators.sketches.triton.kept_text import KEPT_TEXT

__all__ = ["PACK_INPUT_TEXT", "PACK_TEXT", "PACK_WEIGHT_TEXT"]

PACK_TEXT = '''
KINDS = {"fp16": torch.float16, "fp16x3": torch.float16}
COPIES = {"native": 1, "fp16": 1, "bf16x6": 3}


@triton.jit
def power_below(peak):
    """Return the power of two that brings a magnitude to 2^14 .. 2^15."""
    exponent = (peak.to(tl.int32, bitcast=True) >> 23) & 255
    return (tl.minimum(268 - exponent, 253) << 23).to(tl.float32, bitcast=True)


@triton.jit
def scale_of(peak, PRECISION: tl.constexpr):
    """Return the scale of an input from its largest magnitude: 1 where float16 holds it well."""
    if PRECISION == "fp16":
        well = (peak > 0.00390625) & (peak < 32768.0)
    else:
        well = (peak > 0.5) & (peak < 32768.0)
    return tl.where(well | (peak == 0.0), 1.0, power_below(peak))


@triton.jit
def parts_of(value, PRECISION: tl.constexpr):
    """Return a number's parts, the largest first; those that a precision lacks are the first."""
    if PRECISION == "native":
        return value, value, value
    elif PRECISION == "fp16":
        high = value.to(tl.float16)
        return high, high, high
    elif PRECISION == "fp16x3":
        high = value.to(tl.float16)
        low = (value - high.to(tl.float32)).to(tl.float16)
        return high, low, low
    else:
        high = value.to(tl.bfloat16)
        rest = value - high.to(tl.float32)
        middle = rest.to(tl.bfloat16)
        low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
        return high, middle, low


@triton.jit
def put_parts(pointer, value, plane, inside, PRECISION: tl.constexpr):
    """Write a number's parts, each into its plane; planes are `plane` elements apart."""
    high, middle, low = parts_of(value, PRECISION)
    tl.store(pointer, high, mask=inside)
    if PRECISION == "bf16x3" or PRECISION == "fp16x3" or PRECISION == "bf16x6":
        tl.store(pointer + plane, middle, mask=inside)
    if PRECISION == "bf16x6":
        tl.store(pointer + 2 * plane, low, mask=inside)


def kind_of(precision, dtype):
    """Return the dtype of planes."""
    return dtype if precision == "native" else KINDS.get(precision, torch.bfloat16)
'''
"""Scales and parts, used by both of the following."""

PACK_WEIGHT_TEXT = (
    KEPT_TEXT
    + '''
@triton.jit
def weights_at(weight, row, column, PADDED: tl.constexpr):
    """Load weights of one output channel, by taps that move and by what is folded."""
    inner = column % PADDED
    if TAPS_INNER:
        tap = column // PADDED * FOLDED + inner % FOLDED
        channel = inner // FOLDED
    else:
        tap = inner // CHANNEL_ROW
        channel = inner % CHANNEL_ROW
        if REVERSED:
            tap = FOLDED - 1 - tap
        tap += column // PADDED * FOLDED
    if TRANSPOSED:
        group = row // GROUP_OUT
        offset = (group * GROUP_IN + channel) * GROUP_OUT + row % GROUP_OUT
    else:
        offset = row * GROUP_IN + channel
    inside = (inner < FOLDED * CHANNEL_ROW) & (column < MOVES * PADDED) & (channel < GROUP_IN)
    return tl.load(weight + offset * (MOVES * FOLDED) + tap, mask=inside, other=0.0)


@triton.jit
def pack_weight(
    weight, planes, scales, PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK: tl.constexpr,
):
    """Lay the weights of one output channel out, scaled; write what undoes the scale."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    scale = 1.0
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        peak = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, MOVES * PADDED, BLOCK):
            size = tl.abs(weights_at(weight, row, start + columns, PADDED))
            peak = tl.maximum(peak, tl.where(size < float("inf"), size, 0.0))
        scale = power_below(tl.max(peak, 0))
        tl.store(scales + row, 1.0 / scale)
    for start in range(0, MOVES * PADDED, BLOCK):
        column = start + columns
        value = weights_at(weight, row, column, PADDED)
        if PRECISION != "native":
            value = value * scale
        pointer = planes + row * (MOVES * PADDED) + column
        put_parts(
            pointer, value, OUT_CHANNELS * MOVES * PADDED, column < MOVES * PADDED, PRECISION
        )


def packed_weight(weight, padded, precision):
    """Return planes of weights, (planes * channels, columns), and what undoes their scales."""
    shape = (COPIES.get(precision, 2) * OUT_CHANNELS.value, MOVES.value * padded)
    planes = torch.empty(shape, dtype=kind_of(precision, weight.dtype), device=weight.device)
    scales = torch.empty(OUT_CHANNELS.value, dtype=torch.float32, device=weight.device)
    pack_weight[(OUT_CHANNELS.value,)](weight, planes, scales, padded, precision, 1024)
    return planes, scales


def kept_weight(weight, padded, precision):
    """Return what `packed_weight` does, and room for the input's largest magnitude, a 0."""
    planes, scales = kept("weight", weight, lambda it: packed_weight(it, padded, precision))
    return planes, scales, torch.zeros(1, dtype=torch.int32, device=weight.device)
'''
)
"""`kept_weight`, given the constants of `convolution_form` and of the convolution."""

PACK_INPUT_TEXT = '''
@triton.jit
def pack_tile(
    x, planes, number, scale,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, PACK_ROWS: tl.constexpr,
    PACK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Lay one tile of the input out; return its largest finite magnitude."""
    across: tl.constexpr = tl.cdiv(GROUPS * PADDED, PACK_COLUMNS)
    row = number // across * PACK_ROWS + tl.arange(0, PACK_ROWS)
    column = number % across * PACK_COLUMNS + tl.arange(0, PACK_COLUMNS)
    w = row % ROWS_W
    h = row // ROWS_W % ROWS_H
    d = row // (ROWS_W * ROWS_H) % ROWS_D
    image = row // (ROWS_W * ROWS_H * ROWS_D) % BATCH
    phase = row // (ROWS_W * ROWS_H * ROWS_D * BATCH)
    w = w * STRIDE_W + phase % PHASES_W - GAP_W
    h = h * STRIDE_H + phase // PHASES_W % PHASES_H - GAP_H
    d = d * STRIDE_D + phase // (PHASES_W * PHASES_H) - GAP_D
    inner = column % PADDED
    channel = column // PADDED * GROUP_IN + inner % GROUP_IN
    at_row = image.to(tl.int64) * (IN_CHANNELS * SIZE_D * SIZE_H * SIZE_W)
    at_row = neighbours(at_row + (d * SIZE_H + h) * SIZE_W + w, EVEN_ROWS)
    at_column = channel.to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W)
    real_row = row < ALL_ROWS
    real_column = (inner < LAID_OUT * GROUP_IN) & (column < GROUPS * PADDED)
    if LAID_OUT == 1:
        inside = (w >= 0) & (w < SIZE_W) & (h >= 0) & (h < SIZE_H) & (d >= 0) & (d < SIZE_D)
        inside = (inside & real_row)[None, :] & real_column[:, None]
    else:
        tap = inner // GROUP_IN
        tap_w = LEAD_W + tap % FOLDED_W * STEP_W
        tap_h = LEAD_H + tap // FOLDED_W % FOLDED_H * STEP_H
        tap_d = LEAD_D + tap // (FOLDED_W * FOLDED_H) * STEP_D
        at_column += (tap_d * SIZE_H + tap_h) * SIZE_W + tap_w
        inside = real_row[None, :] & real_column[:, None]
        inside &= inner_of(w, tap_w, SIZE_W) & inner_of(h, tap_h, SIZE_H)
        inside &= inner_of(d, tap_d, SIZE_D)
    value = tl.load(x + at_row[None, :] + at_column[:, None], mask=inside, other=0.0)
    peak = 0.0
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        size = tl.abs(value)
        peak = tl.max(tl.max(tl.where(size < float("inf"), size, 0.0), 1), 0)
        value = value * scale
    pointer = planes + row[:, None].to(tl.int64) * (GROUPS * PADDED) + column[None, :]
    real = real_row[:, None] & (column < GROUPS * PADDED)[None, :]
    plane: tl.constexpr = ALL_ROWS * GROUPS * PADDED
    put_parts(pointer, value.T, plane, real, PRECISION)
    return peak


@triton.jit
def inner_of(places, moves, SIZE: tl.constexpr):
    """Tell which places of rows, moved by taps of columns, lie inside."""
    moved = places[None, :] + moves[:, None]
    return (moved >= 0) & (moved < SIZE)


@triton.jit
def pack_input(
    x, planes, peak,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, PACK_ROWS: tl.constexpr,
    PACK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Lay one tile of the input out without a scale; note the largest magnitude."""
    found = pack_tile(
        x, planes, tl.program_id(0), 1.0, PADDED, PRECISION, PACK_ROWS, PACK_COLUMNS
    )
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        tl.atomic_max(peak, found.to(tl.int32, bitcast=True), sem="relaxed")


@triton.jit
def pack_again(
    x, planes, peak, tiles,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, PACK_ROWS: tl.constexpr,
    PACK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Lay the input out once more where it needs a scale."""
    scale = scale_of(tl.load(peak).to(tl.float32, bitcast=True), PRECISION)
    if scale != 1.0:
        for first in range(0, tiles, tl.num_programs(0)):
            number = first + tl.program_id(0)
            pack_tile(x, planes, number, scale, PADDED, PRECISION, PACK_ROWS, PACK_COLUMNS)


def packed_input(x, peak, padded, precision):
    """Return planes of the input, (planes * rows, channels); note its largest magnitude."""
    across = GROUPS.value * padded
    rows, more = COPIES.get(precision, 2) * ALL_ROWS.value, ALONG.value - 1
    kind = kind_of(precision, x.dtype)
    planes = torch.empty((rows + more, across), dtype=kind, device=x.device)
    if more:
        planes[rows:].zero_()  # What the last rows are read together with.
    pack_rows, pack_columns = CONFIG["PACK_ROWS"], CONFIG["PACK_COLUMNS"]
    tiles = triton.cdiv(ALL_ROWS.value, pack_rows) * triton.cdiv(across, pack_columns)
    shared = (padded, precision, pack_rows, pack_columns)
    pack_input[(tiles,)](x, planes, peak, *shared)
    if precision in ("fp16", "fp16x3"):
        pack_again[(min(tiles, 1024),)](x, planes, peak, tiles, *shared)
    return planes
'''
"""`packed_input`, given the same and `ALL_ROWS`: rows of all images and phases."""
