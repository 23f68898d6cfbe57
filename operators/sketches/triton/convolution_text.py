"""Triton text of a convolution as a sum of shifted matrix products (see `convolution_form`)."""

from __future__ import annotations

__all__ = ["CONVOLUTION_FOLLOWED_TEXT", "CONVOLUTION_TEXT"]

_SUMS = '''
@triton.jit
def taps_of(phase, PADDING: tl.constexpr, DILATION: tl.constexpr, STRIDE: tl.constexpr,
            TAPS: tl.constexpr):  # fmt: skip
    """Return the first tap that serves an output phase and how many do."""
    first = 0
    count = 0
    for back in tl.static_range(TAPS):
        # Taps from the last to the first; a multiple of the stride keeps the sum positive.
        reach = DILATION * (back + 1 - TAPS) + TAPS * DILATION * STRIDE
        serves = (phase + PADDING + reach) % STRIDE == 0
        first = tl.where(serves, TAPS - 1 - back, first)
        count += tl.where(serves, 1, 0)
    return first, count


@triton.jit
def move_of(tap, phase, START: tl.constexpr, STEP: tl.constexpr, STRIDE: tl.constexpr,
            PHASES: tl.constexpr, OUT_STRIDE: tl.constexpr, PADDING: tl.constexpr,
            DILATION: tl.constexpr, GAP: tl.constexpr):  # fmt: skip
    """Return by how many rows a tap moves the input, and into which phase of positions."""
    if OUT_STRIDE > 1:
        # The sum is a multiple of the stride; the gap makes it positive.
        return (phase + PADDING - tap * DILATION + GAP * OUT_STRIDE) // OUT_STRIDE, 0
    elif PHASES > 1:
        return tap * STEP // STRIDE, tap * STEP % STRIDE
    else:
        return START + tap * STEP, 0


@triton.jit
def products(x, w, x_row, x_column, w_row, w_column, total,
             X_PLANE: tl.constexpr, W_PLANE: tl.constexpr, PRECISION: tl.constexpr,
             CHANNELS_FIRST: tl.constexpr):  # fmt: skip
    """Add the products of one block of channels, those of small parts first."""
    x0 = x.load([x_row, x_column])
    w0 = w.load([w_row, w_column])
    if PRECISION == "bf16x3" or PRECISION == "fp16x3" or PRECISION == "bf16x6":
        x1 = x.load([x_row + X_PLANE, x_column])
        w1 = w.load([w_row + W_PLANE, w_column])
        if PRECISION == "bf16x6":
            x2 = x.load([x_row + 2 * X_PLANE, x_column])
            w2 = w.load([w_row + 2 * W_PLANE, w_column])
            total = product(x0, w2, total, CHANNELS_FIRST)
            total = product(x1, w1, total, CHANNELS_FIRST)
            total = product(x2, w0, total, CHANNELS_FIRST)
        total = product(x0, w1, total, CHANNELS_FIRST)
        total = product(x1, w0, total, CHANNELS_FIRST)
    return product(x0, w0, total, CHANNELS_FIRST)


@triton.jit
def product(x, w, total, CHANNELS_FIRST: tl.constexpr):
    """Add x @ w.T, or its transpose, to a total."""
    if CHANNELS_FIRST:
        return tl.dot(w, x.T, total)
    else:
        return tl.dot(x, w.T, total)


@triton.jit
def summed(
    x, w, place, group, first_channel, phase_d, phase_h, phase_w,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_OC: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS_FIRST: tl.constexpr,
):  # fmt: skip
    """Return the sums of one phase, channels by positions."""
    if OUT_STRIDE_W * OUT_STRIDE_H * OUT_STRIDE_D > 1:
        first_w, taps_w = taps_of(phase_w, PADDING_W, DILATION_W, OUT_STRIDE_W, TAPS_W)
        first_h, taps_h = taps_of(phase_h, PADDING_H, DILATION_H, OUT_STRIDE_H, TAPS_H)
        first_d, taps_d = taps_of(phase_d, PADDING_D, DILATION_D, OUT_STRIDE_D, TAPS_D)
        steps = taps_w * taps_h * taps_d * (PADDED // BLOCK_K)
        taps_w = tl.maximum(taps_w, 1)
        taps_h = tl.maximum(taps_h, 1)
    else:
        first_w, first_h, first_d = 0, 0, 0
        taps_w: tl.constexpr = TAPS_W
        taps_h: tl.constexpr = TAPS_H
        steps: tl.constexpr = TAPS_W * TAPS_H * TAPS_D * (PADDED // BLOCK_K)
    if CHANNELS_FIRST:
        total = tl.zeros((BLOCK_OC, BLOCK_P), tl.float32)
    else:
        total = tl.zeros((BLOCK_P, BLOCK_OC), tl.float32)
    for step in range(0, steps):
        block = step % (PADDED // BLOCK_K) * BLOCK_K
        tap = step // (PADDED // BLOCK_K)
        tap_w = first_w + tap % taps_w * JUMP_W
        tap_h = first_h + tap // taps_w % taps_h * JUMP_H
        tap_d = first_d + tap // taps_w // taps_h * JUMP_D
        move_w, part_w = move_of(tap_w, phase_w, START_W, STEP_W, STRIDE_W,
                                 PHASES_W, OUT_STRIDE_W, PADDING_W, DILATION_W, GAP_W)  # fmt: skip
        move_h, part_h = move_of(tap_h, phase_h, START_H, STEP_H, STRIDE_H,
                                 PHASES_H, OUT_STRIDE_H, PADDING_H, DILATION_H, GAP_H)  # fmt: skip
        move_d, part_d = move_of(tap_d, phase_d, START_D, STEP_D, STRIDE_D,
                                 PHASES_D, OUT_STRIDE_D, PADDING_D, DILATION_D, GAP_D)  # fmt: skip
        move = (move_d * ROWS_H + move_h) * ROWS_W + move_w
        move += ((part_d * PHASES_H + part_h) * PHASES_W + part_w) * POSITIONS
        column = (tap_d * TAPS_H + tap_h) * TAPS_W + tap_w
        total = products(
            x, w, place + move, group * PADDED + block, group * GROUP_OUT + first_channel,
            column * PADDED + block, total, ALL_ROWS, OUT_CHANNELS, PRECISION, CHANNELS_FIRST,
        )  # fmt: skip
    if CHANNELS_FIRST:
        return total
    else:
        return total.T


@triton.jit
def interleaved(
    x, w, place, group, first_channel, phase_d, phase_h,
    FIRST: tl.constexpr, STEP: tl.constexpr, JOINED: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_OC: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS_FIRST: tl.constexpr,
):  # fmt: skip
    """Return the sums of each STEP-th of JOINED phases along the width, side by side."""
    if STEP == JOINED:
        if FIRST < OUT_STRIDE_W:
            return summed(
                x, w, place, group, first_channel, phase_d, phase_h, FIRST, PADDED, PRECISION,
                BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST,
            )  # fmt: skip
        else:
            return tl.zeros((BLOCK_OC, BLOCK_P), tl.float32)
    else:
        even = interleaved(
            x, w, place, group, first_channel, phase_d, phase_h, FIRST, 2 * STEP, JOINED, PADDED,
            PRECISION, BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST,
        )  # fmt: skip
        odd = interleaved(
            x, w, place, group, first_channel, phase_d, phase_h, FIRST + STEP, 2 * STEP, JOINED,
            PADDED, PRECISION, BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST,
        )  # fmt: skip
        return tl.join(even, odd).reshape(BLOCK_OC, 2 * even.shape[1])


@triton.jit
def shifted_tile(
    number, x, w, peak, scales, bias, out,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_OC: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS_FIRST: tl.constexpr,
    PARTS: tl.constexpr, JOINED: tl.constexpr,
):  # fmt: skip
    """Compute one tile: some channels of one group at neighbouring positions.

    Of a transposed convolution with strides it is one phase, or all along the width if JOINED.
    """
    tiles_oc: tl.constexpr = tl.cdiv(GROUP_OUT, BLOCK_OC)
    phases_w: tl.constexpr = 1 if JOINED > 1 else OUT_STRIDE_W
    first_channel = number % tiles_oc * BLOCK_OC
    number = number // tiles_oc
    group = number % GROUPS
    number = number // GROUPS
    phase_w = number % phases_w
    phase_h = number // phases_w % OUT_STRIDE_H
    phase_d = number // (phases_w * OUT_STRIDE_H) % OUT_STRIDE_D
    place = number // (phases_w * OUT_STRIDE_H * OUT_STRIDE_D) * BLOCK_P
    if JOINED > 1:
        total = interleaved(
            x, w, place, group, first_channel, phase_d, phase_h, 0, 1, JOINED, PADDED, PRECISION,
            BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST,
        )  # fmt: skip
    else:
        total = summed(
            x, w, place, group, first_channel, phase_d, phase_h, phase_w, PADDED, PRECISION,
            BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST,
        )  # fmt: skip
    channels = first_channel + tl.arange(0, BLOCK_OC)
    real = channels < GROUP_OUT
    channels += group * GROUP_OUT
    if PRECISION == "fp16" or PRECISION == "fp16x3":
        down = 1.0 / scale_of(tl.load(peak).to(tl.float32, bitcast=True), PRECISION)
        total *= (tl.load(scales + channels, mask=real, other=0.0) * down)[:, None]
    if bias is not None:
        total += tl.load(bias + channels, mask=real, other=0.0).to(tl.float32)[:, None]
    put(out, total, place * JOINED, channels, real, phase_d, phase_h, phase_w, PARTS, JOINED)


@triton.jit
def put(
    out, total, first, channels, real, phase_d, phase_h, phase_w,
    PARTS: tl.constexpr, JOINED: tl.constexpr,
):  # fmt: skip
    """Write a tile, in parts where its way through shared memory must be short."""
    if PARTS == 1:
        index = first + tl.arange(0, total.shape[1])
        row = index // JOINED
        w_out = row % ROWS_W * OUT_STRIDE_W + phase_w + index % JOINED
        h_out = row // ROWS_W % ROWS_H * OUT_STRIDE_H + phase_h
        d_out = row // (ROWS_W * ROWS_H) % ROWS_D * OUT_STRIDE_D + phase_d
        image = row // (ROWS_W * ROWS_H * ROWS_D)
        inside = (image < BATCH) & (w_out < OUT_W) & (h_out < OUT_H) & (d_out < OUT_D)
        inside &= index % JOINED < OUT_STRIDE_W
        at_row = image.to(tl.int64) * (OUT_CHANNELS * OUT_D * OUT_H * OUT_W)
        at_row = neighbours(at_row + (d_out * OUT_H + h_out) * OUT_W + w_out, EVEN_OUT)
        at_channel = channels.to(tl.int64) * (OUT_D * OUT_H * OUT_W)
'''

_STORE = """\
        pointer = out + at_row[None, :] + at_channel[:, None]
        tl.store(pointer, total.to(out.dtype.element_ty), mask=inside[None, :] & real[:, None])
"""

_FINISH = """\
        # What lies outside is finished like the last, and not written.
        inner = tl.minimum(d_out, OUT_D - 1) * OUT_H + tl.minimum(h_out, OUT_H - 1)
        inner = neighbours(inner * OUT_W + tl.minimum(w_out, OUT_W - 1), False)
        store_tile(
            out, total, tl.minimum(image, BATCH - 1)[None, :],
            tl.minimum(channels, OUT_CHANNELS - 1)[:, None], inner[None, :],
            at_row[None, :] + at_channel[:, None], inside[None, :] & real[:, None],
        )  # fmt: skip
"""

_CALL = '''\
    else:
        half: tl.constexpr = total.shape[1] // 2
        halves = total.reshape(total.shape[0], 2, half).permute(0, 2, 1)
        left, right = halves.split()
        put(out, left, first, channels, real, phase_d, phase_h, phase_w, PARTS // 2, JOINED)
        put(out, right, first + half, channels, real, phase_d, phase_h, phase_w, PARTS // 2, JOINED)


@triton.jit
def shifted_products(
    x, w, peak, scales, bias, out, tiles,
    PADDED: tl.constexpr, PRECISION: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_OC: tl.constexpr, BLOCK_K: tl.constexpr, CHANNELS_FIRST: tl.constexpr,
    PARTS: tl.constexpr, JOINED: tl.constexpr, PERSISTENT: tl.constexpr,
):  # fmt: skip
    """One tile for each program, or as many programs as processors that go from tile to tile."""
    if PERSISTENT:
        # One loop over all steps of all tiles: the next tile is loaded while one is written.
        # Tiles beyond the last have no place in any image, so nothing of them is written.
        for first in tl.range(0, tiles, tl.num_programs(0), flatten=True):
            shifted_tile(
                first + tl.program_id(0), x, w, peak, scales, bias, out, PADDED, PRECISION,
                BLOCK_P, BLOCK_OC, BLOCK_K, CHANNELS_FIRST, PARTS, JOINED,
            )  # fmt: skip
    else:
        shifted_tile(
            tl.program_id(0), x, w, peak, scales, bias, out, PADDED, PRECISION, BLOCK_P,
            BLOCK_OC, BLOCK_K, CHANNELS_FIRST, PARTS, JOINED,
        )  # fmt: skip


def convolve(x, weight, bias, out):
    """Convolve: lay weights and input out, then multiply."""
    precision, block_k = CONFIG["PRECISION"], CONFIG["BLOCK_K"]
    block_p, block_oc = CONFIG["BLOCK_P"], CONFIG["BLOCK_OC"]
    depth = FOLDED.value * CHANNEL_ROW.value
    padded = triton.cdiv(depth, block_k) * block_k
    w, scales, peak = kept_weight(weight, padded, precision)
    row = CHANNEL_ROW.value if ALONG.value > 1 else padded
    x = packed_input(x, peak, row, precision)
    rows = x.shape[0] - ALONG.value + 1
    wide = depth if ALONG.value > 1 else x.shape[1]
    joined = 1 << (OUT_STRIDE_W.value - 1).bit_length() if CONFIG["JOIN"] else 1
    phases = OUT_STRIDE_D.value * OUT_STRIDE_H.value
    phases *= OUT_STRIDE_W.value if joined == 1 else 1
    tiles = triton.cdiv(POSITIONS.value, block_p) * phases
    tiles *= GROUPS.value * triton.cdiv(GROUP_OUT.value, block_oc)
    programs = min(CONFIG["PROGRAMS"], tiles) or tiles
    shifted_products[(programs,)](
        TensorDescriptor(x, [rows, wide], [x.shape[1], 1], [block_p, block_k]),
        TensorDescriptor.from_tensor(w, [block_oc, block_k]),
        peak, scales, bias, out, tiles, padded, precision, block_p, block_oc, block_k,
        CONFIG["CHANNELS_FIRST"], CONFIG["PARTS"], joined, programs < tiles,
        num_warps=CONFIG["num_warps"], num_stages=CONFIG["num_stages"],
    )  # fmt: skip
'''

CONVOLUTION_TEXT = _SUMS + _STORE + _CALL
"""`convolve`, given the constants and the texts of `convolution_pack_text`."""

CONVOLUTION_FOLLOWED_TEXT = _SUMS + _FINISH + _CALL
"""The same, given `store_tile` too; `out` is a tuple that only it takes apart."""
