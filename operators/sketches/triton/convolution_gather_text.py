"""Triton text of a convolution as one matrix product whose input is gathered where it lies.

The depth of the product runs over taps and, within a tap, over input channels, or the other way
round, so that what is near is loaded together. Numbers become
narrow after they are loaded: the input is read in place, which pays where memory is what bounds.
"""

from __future__ import annotations

__all__ = [
    "GATHERED_FOLLOWED_TEXT",
    "GATHERED_PRODUCTS_TEXT",
    "GATHER_TEXT",
    "POINTWISE_GATHER_TEXT",
    "SEPARABLE_GATHER_TEXT",
]

GATHER_TEXT = '''
@triton.jit
def gathered(x, taps, taps_bias, image, inner, d, h, w, group, k):
    """Load the input at places (across) for channels and taps (down); zeros in the padding."""
    if TAPS_INNER:
        channel = group * GROUP_IN + k // FOLDED
        tap = k % FOLDED
    else:
        channel = group * GROUP_IN + k % GROUP_IN
        tap = k // GROUP_IN
    tap_w = tap % FOLDED_W * STEP_W
    tap_h = tap // FOLDED_W % FOLDED_H * STEP_H
    tap_d = tap // (FOLDED_W * FOLDED_H) * STEP_D
    at_row = neighbours((d * SIZE_H + h) * SIZE_W + w, EVEN_PLACES)
    at_column = channel * (SIZE_D * SIZE_H * SIZE_W) + (tap_d * SIZE_H + tap_h) * SIZE_W + tap_w
    pointer = x + image.to(tl.int64) * (IN_CHANNELS * SIZE_D * SIZE_H * SIZE_W)
    pointer = (pointer + at_row)[None, :] + at_column[:, None]
    if OUTSIDE_D + OUTSIDE_H + OUTSIDE_W == 0:
        if DEPTH % k.shape[0] + PLACES % w.shape[0] == 0:
            return tl.load(pointer)
        else:
            inside = (k < DEPTH)[:, None] & (image < BATCH)[None, :]
            return tl.load(pointer, mask=inside, other=0.0)
    else:
        inside = (k < DEPTH)[:, None] & (image < BATCH)[None, :]
        if OUTSIDE_D:
            inside &= between(d, tap_d, SIZE_D)
        if OUTSIDE_H:
            inside &= between(h, tap_h, SIZE_H)
        if OUTSIDE_W:
            inside &= between(w, tap_w, SIZE_W)
        return tl.load(pointer, mask=inside, other=0.0)


@triton.jit
def between(places, moves, SIZE: tl.constexpr):
    """Tell which places, moved by taps, lie inside."""
    moved = places[None, :] + moves[:, None]
    return (moved >= 0) & (moved < SIZE)
'''
"""`gathered` for a convolution; `taps` is for others."""

SEPARABLE_GATHER_TEXT = '''
@triton.jit
def gathered(x, taps, taps_bias, image, inner, d, h, w, group, k):
    """Convolve the input depthwise at places (across) for channels (down)."""
    real = k < DEPTH
    channel = tl.minimum(k, DEPTH - 1)
    pointer = x + image.to(tl.int64) * (IN_CHANNELS * SIZE_D * SIZE_H * SIZE_W)
    pointer = (pointer + neighbours(h * SIZE_W + w, EVEN_PLACES))[None, :]
    pointer += (channel // MULTIPLIER * (SIZE_D * SIZE_H * SIZE_W))[:, None]
    total = tl.zeros((k.shape[0], h.shape[0]), tl.float32)
    if taps_bias is not None:
        total += tl.load(taps_bias + channel).to(tl.float32)[:, None]
    for tap_h in tl.static_range(FOLDED_H):
        for tap_w in tl.static_range(FOLDED_W):
            moved_h = h + STEP_H * tap_h
            moved_w = w + STEP_W * tap_w
            at = pointer + (STEP_H * tap_h * SIZE_W + STEP_W * tap_w)
            if OUTSIDE_H + OUTSIDE_W + PLACES % w.shape[0] == 0:
                value = tl.load(at)
            else:
                inside = (moved_h >= 0) & (moved_h < SIZE_H) & (image < BATCH)
                inside &= (moved_w >= 0) & (moved_w < SIZE_W)
                value = tl.load(at, mask=inside[None, :], other=0.0)
            weight = tl.load(taps + (channel * FOLDED_H + tap_h) * FOLDED_W + tap_w)
            total += value.to(tl.float32) * weight.to(tl.float32)[:, None]
    total = tl.where(real[:, None], total, 0.0)
    return total.to(x.dtype.element_ty)
'''
"""`gathered` that convolves depthwise, in at most two dimensions, with the weights `taps`."""

POINTWISE_GATHER_TEXT = '''
@triton.jit
def gathered(x, taps, taps_bias, image, inner, d, h, w, group, k):
    """Load channels (down) at places (across)."""
    pointer = x + image.to(tl.int64) * (DEPTH * OUT_D * OUT_H * OUT_W)
    pointer += neighbours(inner, OUT_D * OUT_H * OUT_W % 2 == 0)
    pointer = pointer[None, :] + (k * (OUT_D * OUT_H * OUT_W))[:, None]
    if DEPTH % k.shape[0] + PLACES % inner.shape[0] == 0:
        return tl.load(pointer)
    else:
        inside = (k < DEPTH)[:, None] & (image < BATCH)[None, :]
        return tl.load(pointer, mask=inside, other=0.0)
'''
"""`gathered` for a pointwise convolution whose input has the output's sizes."""

_PRODUCTS = '''
@triton.jit
def product(x, w, total, CHANNELS_FIRST: tl.constexpr):
    """Add w @ x, or its transpose, to a total."""
    if CHANNELS_FIRST:
        return tl.dot(w, x, total)
    else:
        return tl.dot(x.T, w.T, total)


@triton.jit
def gathered_products(
    x, taps, taps_bias, w, peak, scales, bias, out,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_OC: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS_FIRST: tl.constexpr,
):  # fmt: skip
    """Compute one tile: some channels of one group at neighbouring places."""
    number = tl.program_id(0)
    tiles_oc: tl.constexpr = tl.cdiv(GROUP_OUT, BLOCK_OC)
    first_channel = number % tiles_oc * BLOCK_OC
    number = number // tiles_oc
    group = number % GROUPS
    place = number // GROUPS * BLOCK_P + tl.arange(0, BLOCK_P)
    image = place // (OUT_W * OUT_H * OUT_D)
    inner = place % (OUT_W * OUT_H * OUT_D)
    w_in = place % OUT_W * STRIDE_W + LEAD_W - GAP_W
    h_in = place // OUT_W % OUT_H * STRIDE_H + LEAD_H - GAP_H
    d_in = place // (OUT_W * OUT_H) % OUT_D * STRIDE_D + LEAD_D - GAP_D
    channels = first_channel + tl.arange(0, BLOCK_OC)
    real = channels < GROUP_OUT
    channels = group * GROUP_OUT + tl.minimum(channels, GROUP_OUT - 1)
    scale = 1.0
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        scale = scale_of(tl.load(peak).to(tl.float32, bitcast=True), PRECISION)
    if CHANNELS_FIRST:
        total = tl.zeros((BLOCK_OC, BLOCK_P), tl.float32)
    else:
        total = tl.zeros((BLOCK_P, BLOCK_OC), tl.float32)
    plane: tl.constexpr = OUT_CHANNELS * PADDED
    for start in range(0, PADDED, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        value = gathered(x, taps, taps_bias, image, inner, d_in, h_in, w_in, group, k)
        at = w + channels[:, None] * PADDED + k[None, :]
        w0 = tl.load(at)
        if PRECISION == "fp16" or PRECISION == "fp16x3":
            value = value * scale
        x0, x1, x2 = parts_of(value, PRECISION)
        if PRECISION == "bf16x6":
            w1 = tl.load(at + plane)
            w2 = tl.load(at + 2 * plane)
            total = product(x0, w2, total, CHANNELS_FIRST)
            total = product(x1, w1, total, CHANNELS_FIRST)
            total = product(x2, w0, total, CHANNELS_FIRST)
            total = product(x0, w1, total, CHANNELS_FIRST)
            total = product(x1, w0, total, CHANNELS_FIRST)
        elif PRECISION == "bf16x3" or PRECISION == "fp16x3":
            w1 = tl.load(at + plane)
            total = product(x0, w1, total, CHANNELS_FIRST)
            total = product(x1, w0, total, CHANNELS_FIRST)
        total = product(x0, w0, total, CHANNELS_FIRST)
    if not CHANNELS_FIRST:
        total = total.T
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        total *= (tl.load(scales + channels) * (1.0 / scale))[:, None]
    if bias is not None:
        total += tl.load(bias + channels).to(tl.float32)[:, None]
    at_row = image.to(tl.int64) * (OUT_CHANNELS * OUT_D * OUT_H * OUT_W) + inner
    at_row = neighbours(at_row, OUT_D * OUT_H * OUT_W % 2 == 0)
'''

_STORE = """\
    pointer = out + at_row[None, :] + (channels.to(tl.int64) * (OUT_D * OUT_H * OUT_W))[:, None]
    inside = (place < PLACES)[None, :] & real[:, None]
    tl.store(pointer, total.to(out.dtype.element_ty), mask=inside)
"""

_FINISH = """\
    # What lies outside is finished like the last, and not written.
    at_channel = channels.to(tl.int64) * (OUT_D * OUT_H * OUT_W)
    store_tile(
        out, total, tl.minimum(image, BATCH - 1)[None, :], channels[:, None],
        neighbours(inner, False)[None, :], at_row[None, :] + at_channel[:, None],
        (place < PLACES)[None, :] & real[:, None],
    )  # fmt: skip
"""

_CALL = '''

@triton.jit
def largest(x, peak, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Note the largest finite magnitude of the input, as the bits of a float32."""
    found = tl.zeros((BLOCK,), tl.float32)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    for first in range(start, SIZE, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        size = tl.abs(tl.load(x + at, mask=at < SIZE, other=0.0))
        found = tl.maximum(found, tl.where(size < float("inf"), size, 0.0))
    tl.atomic_max(peak, tl.max(found, 0).to(tl.int32, bitcast=True), sem="relaxed")


def convolve(x, taps, taps_bias, weight, bias, out):
    """Convolve: lay weights out, learn the input's scale where it is needed, multiply."""
    precision, block_k = CONFIG["PRECISION"], CONFIG["BLOCK_K"]
    block_p, block_oc = CONFIG["BLOCK_P"], CONFIG["BLOCK_OC"]
    padded = triton.cdiv(DEPTH.value, block_k) * block_k
    w, scales, peak = kept_weight(weight, padded, precision)
    if precision in ("fp16", "fp16x3"):
        largest[(min(triton.cdiv(x.numel(), 2048), 1056),)](x, peak, x.numel(), 2048)
    tiles = triton.cdiv(PLACES.value, block_p)
    tiles *= GROUPS.value * triton.cdiv(GROUP_OUT.value, block_oc)
    gathered_products[(tiles,)](
        x, taps, taps_bias, w, peak, scales, bias, out, padded, precision, block_p, block_oc,
        block_k, CONFIG["CHANNELS_FIRST"],
        num_warps=CONFIG["num_warps"], num_stages=CONFIG["num_stages"],
    )  # fmt: skip
'''

GATHERED_PRODUCTS_TEXT = _PRODUCTS + _STORE + _CALL
"""`convolve`, given `gathered`, the constants and the texts of `convolution_pack_text`."""

GATHERED_FOLLOWED_TEXT = _PRODUCTS + _FINISH + _CALL
"""The same, given `store_tile` too; `out` is a tuple that only it takes apart."""
