"""Triton text of sliding windows that takes four neighbours of a row at a time.

Windows that move by one element overlap. Loaded tap by tap, each element is read as often as it has
windows, and at addresses that no vector load can have: the first cache is the limit, not memory.
Here a thread has four neighbouring outputs, loads all that they need as aligned vectors of four,
and reduces windows in registers. Rows are taken one by one, as in `windows_by_row`.
"""

from __future__ import annotations

from collections.abc import Sequence

from operators.sketches.patterns.windows import Windows
from operators.sketches.triton.pooling_text import (
    ROW_INSIDE,
    Reduction,
    finished_text,
    store_text,
)

__all__ = ["fours_text", "reach_ahead", "vectors_of"]

_LANES = range(4)

_FOURS = '''
@triton.jit
def four_lanes(tile):
    """Part fours of neighbours into the first, second, third and fourth of each."""
    pairs = tl.reshape(tile, (tile.shape[0], tile.shape[1], 2, 2))
    even, odd = tl.split(pairs)
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def four_together(first, second, third, fourth):
    """Put fours of neighbours together; the inverse of `four_lanes`."""
    pairs = tl.join(tl.join(first, third), tl.join(second, fourth))
    return tl.reshape(pairs, (first.shape[0], first.shape[1], 4))


@triton.jit
def windows_by_fours(
    x, taps, bias, out, BLOCK_C: tl.constexpr, STRIP: tl.constexpr, BLOCK_W: tl.constexpr,
    UNROLL: tl.constexpr,
):  # fmt: skip
    """Compute a strip of rows of some planes, four neighbours in each lane."""
    number = tl.program_id(0)
    tile_w = number % tl.cdiv(OUT_W, BLOCK_W)
    number = number // tl.cdiv(OUT_W, BLOCK_W)
    strip = number % tl.cdiv(OUT_H, STRIP) * STRIP
    number = number // tl.cdiv(OUT_H, STRIP)
    d = number % OUT_D
    plane = (number // OUT_D * BLOCK_C + tl.arange(0, BLOCK_C))[:, None]
    w = tile_w * BLOCK_W + 4 * tl.arange(0, BLOCK_W // 4)[None, :, None]
    w = w + tl.arange(0, 4)[None, None, :]
    inside = (plane < PLANES)[:, :, None] & (w < OUT_W)
    plane = tl.minimum(plane, PLANES - 1)
    channel = plane % CHANNELS
    first_d = d * STRIDE_D - PADDING_D
    column = w - AHEAD
    base = x + ((plane // MULTIPLIER).to(tl.int64) * (SIZE_D * SIZE_H * SIZE_W))[:, :, None]
    base = base + first_d * (SIZE_H * SIZE_W) + column
    to = {out}((plane.to(tl.int64) * OUT_D + d) * (OUT_H * OUT_W))[:, :, None] + w
    {begin}
    for step in tl.range(0, STRIP + KERNEL_H - 1, loop_unroll_factor=UNROLL):
        row = strip - PADDING_H + step
        {advance}
        h = strip + step - (KERNEL_H - 1)
        total = finished(four_together({first}), d, h, w)
        if bias is not None:
            total += tl.load(bias + channel).to(tl.float32)[:, :, None]
        real = inside & (step >= KERNEL_H - 1) & (h < OUT_H)
        {store}


def slide(x, taps, bias, out):
    """Take all windows."""
    block_c, strip, block_w = CONFIG["BLOCK_C"], CONFIG["BLOCK_H"], CONFIG["BLOCK_W"]
    # At most sixteen elements for each thread: more take the compiler minutes.
    warps = max(CONFIG["num_warps"], block_c * block_w // 512)
    tiles = triton.cdiv(PLANES.value, block_c) * OUT_D.value
    tiles *= triton.cdiv(OUT_H.value, strip) * triton.cdiv(OUT_W.value, block_w)
    windows_by_fours[(tiles,)](
        x, taps, bias, out, block_c, strip, block_w, CONFIG["UNROLL"], num_warps=warps
    )
'''


def reach_ahead(windows: Windows) -> int:
    """Return by how much the first vector of a four begins before it: a multiple of four."""
    return -(-windows.padding[2] // 4) * 4


def vectors_of(windows: Windows) -> list[int]:
    """Return which aligned vectors of a row four windows need, counted from the first one."""
    taps = range(windows.kernel[2])
    return sorted({_tap(windows, lane, w) // 4 for lane in _LANES for w in taps})


def fours_text(reduction: Reduction, windows: Windows, *, followed: bool = False) -> str:
    """Return the text of the kernel and of `slide`, given the constants of the geometry.

    Args:
        reduction: What is made of a window.
        windows: Their geometry; they move by one row and one column, and `AHEAD` among the
            constants is what `reach_ahead` tells.
        followed: See `windows_text`.
    """
    inner = f"{ROW_INSIDE} + tl.minimum(w, OUT_W - 1)"
    text = _FOURS.format(
        begin="\n    ".join(_begin(reduction, windows)),
        advance="\n        ".join(_advance(reduction, windows)),
        first=", ".join(f"sum0_{lane}" for lane in _LANES),
        out="" if followed else "out + ",
        store=store_text(
            inner, "to + h * OUT_W", "real", followed=followed, planes="plane[:, :, None]"
        ),
    )
    return "\n".join((finished_text(reduction), text))


def _begin(reduction: Reduction, windows: Windows) -> list[str]:
    """Statements before the rows: weights, and sums of the rows under way."""
    depth, height, width = windows.kernel
    lines = []
    if reduction.weighted:
        assert depth == 1, "weights of planes"
        lines = [
            f"tap{h}_{w} = tl.load(taps + channel * {height * width} + {h * width + w})"
            ".to(tl.float32)"
            for h in range(height)
            for w in range(width)
        ]
    empty = f"tl.full((BLOCK_C, BLOCK_W // 4), {reduction.neutral}, tl.float32)"
    return lines + [f"sum{h}_{lane} = {empty}" for h in range(height) for lane in _LANES]


def _advance(reduction: Reduction, windows: Windows) -> list[str]:
    """Statements that take one input row into the sums."""
    lines = ["in_row = (row >= 0) & (row < SIZE_H)", "at = base + row * SIZE_W"]
    for d in range(windows.kernel[0]):
        lines += _loaded(reduction, windows, d)
    for lane in _LANES:
        lines += _taken(reduction, windows, lane)
    return lines


def _loaded(reduction: Reduction, windows: Windows, d: int) -> list[str]:
    """Load the vectors that four windows need of one row at some depth, and part them."""
    lines = []
    for vector in vectors_of(windows):
        column = f"column + {4 * vector}" if vector else "column"
        real = f"in_row & ({column} < SIZE_W)"
        if 4 * vector < reach_ahead(windows):
            real += f" & ({column} >= 0)"
        if windows.kernel[0] > 1 or windows.padding[0]:
            deep = f"first_d + {d} * DILATION_D"
            real += f" & ({deep} >= 0) & ({deep} < SIZE_D)"
        place = f"at + {d} * DILATION_D * (SIZE_H * SIZE_W)" if d else "at"
        place += f" + {4 * vector}" if vector else ""
        names = ", ".join(f"x{d}_{4 * vector + lane}" for lane in _LANES)
        lines += [
            f"four = tl.load({place}, mask={real}, other={reduction.neutral})",
            f"{names} = four_lanes(four.to(tl.float32))",
        ]
    return lines


def _taken(reduction: Reduction, windows: Windows, lane: int) -> Sequence[str]:
    """Take the windows of one lane of the fours into its sums."""
    depth, height, width = windows.kernel
    names = [f"x{d}_{_tap(windows, lane, w)}" for d in range(depth) for w in range(width)]
    lines = []
    if not reduction.weighted:
        lines.append(f"reduced = {names[0]}")
        lines += [f"reduced = {reduction.joined('reduced', name)}" for name in names[1:]]
    for h in range(height):
        tap = height - 1 - h
        terms = [f"{x} * tap{tap}_{w}" for w, x in enumerate(names)]
        new = " + ".join(terms) if reduction.weighted else "reduced"
        if h < height - 1:
            new = reduction.joined(f"sum{h + 1}_{lane}", new)
        lines.append(f"sum{h}_{lane} = {new}")
    return lines


def _tap(windows: Windows, lane: int, w: int) -> int:
    """Where a tap of a lane's window lies, counted from the begin of the first vector."""
    return reach_ahead(windows) - windows.padding[2] + lane + w * windows.dilation[2]
