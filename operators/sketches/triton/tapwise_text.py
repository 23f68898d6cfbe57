"""Triton text of a convolution without a matrix product: float32 multiplied and added as it is."""

from __future__ import annotations

__all__ = ["TAPWISE_TEXT"]

TAPWISE_TEXT = '''
@triton.jit
def reached(phase, tap, START: tl.constexpr, STEP: tl.constexpr, OUT_STRIDE: tl.constexpr):
    """Return whether a tap serves outputs of a phase, and by how much it moves them.

    Of a transposed convolution with strides it serves one output in OUT_STRIDE.
    """
    moved = phase + START + tap * STEP
    return moved % OUT_STRIDE == 0, moved // OUT_STRIDE


@triton.jit
def add_tap(x, w, total, d, h, w_in, inside, tap, channels, real, UNROLL: tl.constexpr):
    """Add what one tap of every input channel brings."""
    inside = inside & (d >= 0) & (d < SIZE_D) & (h >= 0) & (h < SIZE_H)
    inside = (inside & (w_in >= 0) & (w_in < SIZE_W))[None, :]
    at = neighbours((d * SIZE_H + h) * SIZE_W + w_in, EVEN_GRID)[None, :]
    for channel in tl.range(GROUP_IN, loop_unroll_factor=UNROLL):
        value = tl.load(x + at + channel * (SIZE_D * SIZE_H * SIZE_W), mask=inside, other=0.0)
        weight = tl.load(w + (tap * GROUP_IN + channel) * GROUP_OUT + channels, mask=real)
        total += weight.to(tl.float32)[:, None] * value.to(tl.float32)
    return total


@triton.jit
def direct(
    x, w, bias, out, BLOCK_P: tl.constexpr, BLOCK_OC: tl.constexpr, UNROLL: tl.constexpr,
):
    """Compute one tile: some channels of one group at places of one output phase."""
    number = tl.program_id(0)
    phase = number % (OUT_STRIDE_D * OUT_STRIDE_H * OUT_STRIDE_W)
    number = number // (OUT_STRIDE_D * OUT_STRIDE_H * OUT_STRIDE_W)
    tiles_oc: tl.constexpr = tl.cdiv(GROUP_OUT, BLOCK_OC)
    channels = number % tiles_oc * BLOCK_OC + tl.arange(0, BLOCK_OC)
    number = number // tiles_oc
    group = number % GROUPS
    place = number // GROUPS * BLOCK_P + tl.arange(0, BLOCK_P)
    image = place // (GRID_D * GRID_H * GRID_W)
    d = place // (GRID_H * GRID_W) % GRID_D
    h = place // GRID_W % GRID_H
    w_at = place % GRID_W
    phase_w = phase % OUT_STRIDE_W
    phase_h = phase // OUT_STRIDE_W % OUT_STRIDE_H
    phase_d = phase // (OUT_STRIDE_W * OUT_STRIDE_H)
    real = channels < GROUP_OUT
    total = tl.zeros((BLOCK_OC, BLOCK_P), tl.float32)
    if bias is not None:
        total += tl.load(bias + group * GROUP_OUT + channels, mask=real).to(tl.float32)[:, None]
    volume: tl.constexpr = SIZE_D * SIZE_H * SIZE_W
    first = (image * IN_CHANNELS + group * GROUP_IN).to(tl.int64) * volume
    w += group * (KERNEL_D * KERNEL_H * KERNEL_W * GROUP_IN * GROUP_OUT)
    for tap_d in range(KERNEL_D):
        serves_d, moved_d = reached(phase_d, tap_d, START_D, STEP_D, OUT_STRIDE_D)
        for tap_h in range(KERNEL_H):
            serves_h, moved_h = reached(phase_h, tap_h, START_H, STEP_H, OUT_STRIDE_H)
            for tap_w in range(KERNEL_W):
                serves_w, moved_w = reached(phase_w, tap_w, START_W, STEP_W, OUT_STRIDE_W)
                if serves_d & serves_h & serves_w:
                    tap = (tap_d * KERNEL_H + tap_h) * KERNEL_W + tap_w
                    total = add_tap(
                        x + first[None, :], w, total, d * MOVE_D + moved_d, h * MOVE_H + moved_h,
                        w_at * MOVE_W + moved_w, image < BATCH, tap, channels, real, UNROLL,
                    )  # fmt: skip
    d = d * OUT_STRIDE_D + phase_d
    h = h * OUT_STRIDE_H + phase_h
    w_at = w_at * OUT_STRIDE_W + phase_w
    inside = (image < BATCH) & (d < OUT_D) & (h < OUT_H) & (w_at < OUT_W)
    at = image.to(tl.int64) * (OUT_CHANNELS * OUT_D * OUT_H * OUT_W)
    at += neighbours((d * OUT_H + h) * OUT_W + w_at, EVEN_GRID)
    rows = (group * GROUP_OUT + channels).to(tl.int64) * (OUT_D * OUT_H * OUT_W)
    tl.store(
        out + at[None, :] + rows[:, None],
        total.to(out.dtype.element_ty),
        mask=inside[None, :] & real[:, None],
    )


def laid_out(weight):
    """Return weights by group, tap and input channel, output channels last."""
    inputs, outputs = GROUP_IN.value, GROUP_OUT.value
    if TRANSPOSED.value:
        moved = weight.reshape(GROUPS.value, inputs, outputs, -1).permute(0, 3, 1, 2)
    else:
        moved = weight.reshape(GROUPS.value, outputs, inputs, -1).permute(0, 3, 2, 1)
    return moved.contiguous()


def convolve(x, weight, bias, out):
    """Convolve without a matrix product."""
    block_p, block_oc = CONFIG["BLOCK_P"], CONFIG["BLOCK_OC"]
    places = BATCH.value * GRID_D.value * GRID_H.value * GRID_W.value
    tiles = triton.cdiv(places, block_p) * GROUPS.value * triton.cdiv(GROUP_OUT.value, block_oc)
    tiles *= OUT_STRIDE_D.value * OUT_STRIDE_H.value * OUT_STRIDE_W.value
    direct[(tiles,)](
        x, kept("weight", weight, laid_out), bias, out, block_p, block_oc, CONFIG["UNROLL"],
        num_warps=CONFIG["num_warps"],
    )  # fmt: skip
'''
"""`convolve`, given `KEPT_TEXT`, `NEIGHBOURS_TEXT`, `shared_values` and what `direct` describes."""
