"""Triton text of sliding windows over planes: pooling and depthwise convolutions.

Two schedules. With `ROLLING`, a program goes down the rows of a strip: each input row is reduced
along its windows once and taken into the sums of all output rows that it belongs to, which stay in
registers. Otherwise each output takes all of its window, through the first cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operators.sketches.triton.layout_text import NEIGHBOURS_TEXT

__all__ = ["ROW_INSIDE", "Reduction", "finished_text", "store_text", "windows_text"]

ROW_INSIDE = "(d * OUT_H + tl.minimum(tl.maximum(h, 0), OUT_H - 1)) * OUT_W"
"""Text of where a row begins in its plane, or the nearest one where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """How the elements of a window become one.

    Attributes:
        kind: "max" or "sum".
        weighted: Whether elements are weighted by `taps`, one set for each output channel.
        divided: What follows a sum: "" for nothing, "divisor" for the constant `DIVISOR`, or
            "count" for the number of elements inside.
    """

    kind: str
    weighted: bool = False
    divided: str = ""

    def joined(self, a: str, b: str) -> str:
        """Return the text that joins two values."""
        if self.kind == "max":
            return f"tl.maximum({a}, {b}, propagate_nan=tl.PropagateNan.ALL)"
        return f"{a} + {b}"

    @property
    def neutral(self) -> str:
        """Text of the value that changes nothing."""
        return 'float("-inf")' if self.kind == "max" else "0.0"


_FINISHED = '''
@triton.jit
def count_inside(at, STRIDE: tl.constexpr, PADDING: tl.constexpr, KERNEL: tl.constexpr,
                 SIZE: tl.constexpr):  # fmt: skip
    """Return how many elements of a window lie inside, along one dimension."""
    first = at * STRIDE - PADDING
    return tl.minimum(first + KERNEL, SIZE) - tl.maximum(first, 0)


@triton.jit
def finished(total, d, h, w):
    """Complete the outputs of one row or tile; their places broadcast against them."""
    {finish}
'''

_PLAIN = '''
@triton.jit
def windows_at_once(
    x, taps, bias, out, BLOCK_C: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr
):
    """Compute one tile of outputs of some planes, taking each window by itself."""
    number = tl.program_id(0)
    tile_w = number % tl.cdiv(OUT_W, BLOCK_W)
    number = number // tl.cdiv(OUT_W, BLOCK_W)
    tile_h = number % tl.cdiv(OUT_H, BLOCK_H)
    number = number // tl.cdiv(OUT_H, BLOCK_H)
    d = number % OUT_D
    # One dimension for all, so that lanes run along rows whatever the compiler knows of strides.
    index = tl.arange(0, BLOCK_C * BLOCK_H * BLOCK_W)
    plane = number // OUT_D * BLOCK_C + index // (BLOCK_W * BLOCK_H)
    h = tile_h * BLOCK_H + index // BLOCK_W % BLOCK_H
    w = tile_w * BLOCK_W + index % BLOCK_W
    inside = (plane < PLANES) & (h < OUT_H) & (w < OUT_W)
    # What lies beyond the last is computed like the last, and not written.
    plane = tl.minimum(plane, PLANES - 1)
    h = tl.minimum(h, OUT_H - 1)
    w = tl.minimum(w, OUT_W - 1)
    first_d = d * STRIDE_D - PADDING_D
    first_h = h * STRIDE_H - PADDING_H
    first_w = w * STRIDE_W - PADDING_W
    base = x + (plane // MULTIPLIER).to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W)
    base += (first_d * SIZE_H + first_h) * SIZE_W + first_w
    total = tl.full((BLOCK_C * BLOCK_H * BLOCK_W,), {neutral}, tl.float32)
    channel = plane % CHANNELS
    for tap_d in tl.static_range(KERNEL_D):
        in_d = (first_d + DILATION_D * tap_d >= 0) & (first_d + DILATION_D * tap_d < SIZE_D)
        for tap_h in tl.static_range(KERNEL_H):
            row = first_h + DILATION_H * tap_h
            in_h = in_d & (row >= 0) & (row < SIZE_H)
            for tap_w in tl.static_range(KERNEL_W):
                column = first_w + DILATION_W * tap_w
                move = (DILATION_D * tap_d * SIZE_H + DILATION_H * tap_h) * SIZE_W
                at = base + (move + DILATION_W * tap_w)
                if OUTSIDE:
                    real = in_h & (column >= 0) & (column < SIZE_W)
                    value = tl.load(at, mask=real, other={neutral}).to(tl.float32)
                else:
                    value = tl.load(at).to(tl.float32)
                {weighted}
                total = {joined}
    total = finished(total, d, h, w)
    if bias is not None:
        total += tl.load(bias + channel).to(tl.float32)
    at = {out}(plane.to(tl.int64) * OUT_D + d) * (OUT_H * OUT_W) + h * OUT_W + w
    {store}
'''

_ROLLING = '''
@triton.jit
def windows_by_row(
    x, taps, bias, out, BLOCK_C: tl.constexpr, STRIP: tl.constexpr, BLOCK_W: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Compute a strip of rows of some planes; sums of rows under way stay in registers."""
    number = tl.program_id(0)
    tile_w = number % tl.cdiv(OUT_W, BLOCK_W)
    number = number // tl.cdiv(OUT_W, BLOCK_W)
    strip = number % tl.cdiv(OUT_H, STRIP) * STRIP
    number = number // tl.cdiv(OUT_H, STRIP)
    d = number % OUT_D
    plane = (number // OUT_D * BLOCK_C + tl.arange(0, BLOCK_C))[:, None]
    w = tile_w * BLOCK_W + tl.arange(0, BLOCK_W)
    inside = (plane < PLANES) & (w < OUT_W)[None, :]
    plane = tl.minimum(plane, PLANES - 1)
    w = tl.minimum(w, OUT_W - 1)
    first_d = d * STRIDE_D - PADDING_D
    first_w = neighbours(w * STRIDE_W - PADDING_W, False)[None, :]
    base = x + (plane // MULTIPLIER).to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W)
    base = base + first_d * (SIZE_H * SIZE_W) + first_w
    channel = plane % CHANNELS
    w = neighbours(w, False)[None, :]
    to = {out}(plane.to(tl.int64) * OUT_D + d) * (OUT_H * OUT_W) + w
    {begin}
    for step in tl.range(0, STRIP + KERNEL_H - 1, loop_unroll_factor=UNROLL):
        row = strip - PADDING_H + step
        {advance}
        h = strip + step - (KERNEL_H - 1)
        total = finished(sum0, d, h, w)
        if bias is not None:
            total += tl.load(bias + channel).to(tl.float32)
        real = inside & (step >= KERNEL_H - 1) & (h < OUT_H)
        {store}
'''

_LAUNCH = '''
def slide(x, taps, bias, out):
    """Take all windows."""
    block_c, block_h, block_w = CONFIG["BLOCK_C"], CONFIG["BLOCK_H"], CONFIG["BLOCK_W"]
    {limit}tiles = triton.cdiv(PLANES.value, block_c) * OUT_D.value
    tiles *= triton.cdiv(OUT_H.value, block_h) * triton.cdiv(OUT_W.value, block_w)
    {launch}
'''

_LIMIT = """most = max(1024 * CONFIG["{warps}"] // (block_c * block_w), 1)
    if {when}block_h > most:
        # Tiles of more than 32 elements for each thread take the compiler minutes.
        block_h = most
    """

_LAUNCH_PLAIN = """windows_at_once[(tiles,)](
        x, taps, bias, out, block_c, block_h, block_w, num_warps=CONFIG["{warps}"]
    )"""

_LAUNCH_EITHER = """if CONFIG["ROLLING"]:
        windows_by_row[(tiles,)](
            x, taps, bias, out, block_c, block_h, block_w, CONFIG["UNROLL"],
            num_warps=CONFIG["{warps}"],
        )  # fmt: skip
    else:
        windows_at_once[(tiles,)](
            x, taps, bias, out, block_c, block_h, block_w, num_warps=CONFIG["{warps}"]
        )"""


def windows_text(
    reduction: Reduction,
    kernel: tuple[int, int, int],
    *,
    rolling: bool,
    outside: bool,
    warps: str = "num_warps",
    followed: bool = False,
) -> str:
    """Return the text of the kernels and of `slide`, given the constants of the geometry.

    Args:
        reduction: What is made of a window.
        kernel: Its taps in each dimension.
        rolling: Whether windows of neighbouring rows overlap by all but one row, so that rows can
            be taken one by one.
        outside: Whether windows reach into the padding.
        warps: Name of the parameter that holds the number of warps.
        followed: Whether outputs go through `store_tile`, which is still to come; `out` is a tuple
            then that only it takes apart.
    """
    weight = "taps + ((channel * KERNEL_D + tap_d) * KERNEL_H + tap_h) * KERNEL_W + tap_w"
    plain = _PLAIN.format(
        neutral=reduction.neutral,
        weighted=f"value *= tl.load({weight}).to(tl.float32)" if reduction.weighted else "",
        joined=reduction.joined("total", "value"),
        out="" if followed else "out + ",
        store=store_text("(d * OUT_H + h) * OUT_W + w", "at", "inside", followed=followed),
    )
    plain = "\n".join(line for line in plain.split("\n") if line.strip() or not line)
    parts = [finished_text(reduction), plain]
    if rolling:
        begin, advance = _begin(reduction, kernel), _advance(reduction, kernel, outside=outside)
        text = _ROLLING.format(
            begin="\n    ".join(begin),
            advance="\n        ".join(advance),
            out="" if followed else "out + ",
            store=store_text(f"{ROW_INSIDE} + w", "to + h * OUT_W", "real", followed=followed),
        )
        parts.append(text)
    launch = _LAUNCH_EITHER if rolling else _LAUNCH_PLAIN
    launch = launch.format(warps=warps)
    limit = _LIMIT.format(warps=warps, when='not CONFIG["ROLLING"] and ' if rolling else "")
    return "\n".join((NEIGHBOURS_TEXT, *parts, _LAUNCH.format(limit=limit, launch=launch)))


def store_text(
    inner: str, place: str, inside: str, *, followed: bool, planes: str = "plane"
) -> str:
    """Return the text that writes `total`.

    Args:
        inner: Text of where outputs lie in their plane; it must not lead outside of it.
        place: Text of their pointers, or of where they lie in the result if `followed`.
        inside: Text of the mask.
        followed: Whether they go through `store_tile`.
        planes: Text of the numbers of their planes.
    """
    if not followed:
        return f"tl.store({place}, total.to(out.dtype.element_ty), mask={inside})"
    plane = f"{planes} // CHANNELS, {planes} % CHANNELS"
    return f"store_tile(out, total, {plane}, {inner}, {place}, {inside})"


def finished_text(reduction: Reduction) -> str:
    """Return the text of `finished`, which completes outputs, given the geometry's constants."""
    finish = {
        "": "return total",
        "divisor": "return total * (1.0 / DIVISOR)",
        "count": _COUNT.strip(),
    }[reduction.divided]
    return _FINISHED.format(finish=finish)


_COUNT = """
    count = count_inside(d, STRIDE_D, PADDING_D, KERNEL_D, SIZE_D)
    count = count * count_inside(h, STRIDE_H, PADDING_H, KERNEL_H, SIZE_H)
    count = count * count_inside(w, STRIDE_W, PADDING_W, KERNEL_W, SIZE_W)
    return total / count.to(tl.float32)
"""


def _begin(reduction: Reduction, kernel: tuple[int, int, int]) -> list[str]:
    """Statements before the rows: weights, and sums of the rows under way."""
    depth, height, width = kernel
    lines = []
    if reduction.weighted:
        assert depth == 1, "weights of planes"
        lines = [
            f"tap{h}_{w} = tl.load(taps + channel * {height * width} + {h * width + w})"
            ".to(tl.float32)"
            for h in range(height)
            for w in range(width)
        ]
    shape = "(BLOCK_C, BLOCK_W)"
    lines += [f"sum{h} = tl.full({shape}, {reduction.neutral}, tl.float32)" for h in range(height)]
    return lines


def _advance(reduction: Reduction, kernel: tuple[int, int, int], *, outside: bool) -> Sequence[str]:
    """Statements that take one input row into the sums."""
    depth, height, width = kernel
    lines = ["in_row = (row >= 0) & (row < SIZE_H)", "at = base + row * SIZE_W"]
    names = []
    for d in range(depth):
        deep = f"first_d + {d} * DILATION_D"
        for w in range(width):
            name = f"x{d}_{w}" if depth > 1 else f"x{w}"
            place = f"at + {d} * DILATION_D * (SIZE_H * SIZE_W) + {w} * DILATION_W"
            place = place.replace("at + 0 * DILATION_D * (SIZE_H * SIZE_W)", "at")
            place = place.replace(" + 0 * DILATION_W", "")
            if outside:
                column = f"first_w + {w} * DILATION_W"
                real = f"in_row & ({column} >= 0) & ({column} < SIZE_W)"
                real += f" & ({deep} >= 0) & ({deep} < SIZE_D)" if depth > 1 else ""
            else:
                real = "in_row"
            lines.append(
                f"{name} = tl.load({place}, mask={real}, other={reduction.neutral}).to(tl.float32)"
            )
            names.append(name)
    if not reduction.weighted:
        lines.append(f"reduced = {names[0]}")
        lines += [f"reduced = {reduction.joined('reduced', name)}" for name in names[1:]]
    for h in range(height):
        tap = height - 1 - h
        terms = [f"{x} * tap{tap}_{w}" for w, x in enumerate(names)]
        new = " + ".join(terms) if reduction.weighted else "reduced"
        if h < height - 1:
            lines.append(f"sum{h} = {reduction.joined(f'sum{h + 1}', new)}")
        else:
            lines.append(f"sum{h} = {new}")
    return lines
