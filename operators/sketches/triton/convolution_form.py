"""Convolutions as sums of shifted matrix products, and the layout that makes shifts plain.

The input is laid out anew with channels last and zeros between rows, so that all positions of all
images form one long matrix of rows: the product of a tap with every position is then the product
of a weight matrix with that matrix, moved by a number of rows that depends on the tap alone.

- Zeros that end one row may begin the next: a gap is laid out once.
- Strides of a convolution: positions are dealt out to one matrix for each remainder ("phase").
- Strides of a transposed one: outputs are dealt out instead, and each remainder has taps of its
  own, so no zeros are multiplied.
- Few channels: taps of the last dimensions can be laid out as further channels ("folded"), or
  neighbouring rows be read as one long row: then rows overlap, and nothing is stored twice.

Source: W. Shi et al., "Real-time single image and video super-resolution using an efficient
sub-pixel convolutional neural network", CVPR 2016 (transposed convolutions without zeros);
S. Chetlur et al., "cuDNN: efficient primitives for deep learning", arXiv 1410.0759 (implicit
products).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

from operators.sketches.patterns.convolution import Convolution

__all__ = ["OVERLAP", "Axis", "Form", "form_of"]

OVERLAP = 4
"""The fold in which taps along the width are read as one row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One spatial dimension of a convolution in its layout.

    The input's place is `stride * row + phase - gap` for a row of the layout, or, where taps are
    folded, `stride * row + lead + step * tap`. A tap moves rows by `start + step * tap`, or by
    that over the stride.

    Attributes:
        size: Input size.
        out: Output size.
        taps: Taps that move rows.
        folded: Taps laid out as channels.
        stride: Of a convolution; 1 for a transposed one.
        phases: Remainders of positions, each with rows of its own.
        out_stride: Of a transposed convolution; 1 otherwise.
        gap: Zeros before the first position.
        rows: Rows of the layout for one phase, gaps included.
        lead: See above.
        start: See above.
        step: See above.
        padding: As torch has it, for transposed convolutions with strides.
        dilation: The same.
        jump: Distance of the taps that serve one output phase.
    """

    size: int
    out: int
    taps: int
    folded: int
    stride: int
    phases: int
    out_stride: int
    gap: int
    rows: int
    lead: int
    start: int
    step: int
    padding: int
    dilation: int
    jump: int

    @property
    def grid(self) -> int:
        """Outputs of one output phase."""
        return -(-self.out // self.out_stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A convolution's layout.

    Attributes:
        axes: Depth, height and width.
        fold: How many of the last dimensions have their taps folded, or `OVERLAP`.
        along: Neighbouring rows that are read as one.
    """

    axes: tuple[Axis, Axis, Axis]
    fold: int
    along: int = 1

    @property
    def taps(self) -> int:
        """Taps that move rows."""
        return prod(axis.taps for axis in self.axes)

    @property
    def folded(self) -> int:
        """Taps laid out as channels."""
        return prod(axis.folded for axis in self.axes)

    @property
    def rows(self) -> int:
        """Rows of one image in one phase."""
        return prod(axis.rows for axis in self.axes)

    @property
    def phases(self) -> int:
        """Phases of positions."""
        return prod(axis.phases for axis in self.axes)

    def values(self) -> dict[str, int]:
        """Return the constants that the kernels use, by name."""
        names = {
            "SIZE": "size",
            "OUT": "out",
            "TAPS": "taps",
            "FOLDED": "folded",
            "STRIDE": "stride",
            "PHASES": "phases",
            "OUT_STRIDE": "out_stride",
            "GAP": "gap",
            "ROWS": "rows",
            "LEAD": "lead",
            "START": "start",
            "STEP": "step",
            "PADDING": "padding",
            "DILATION": "dilation",
            "JUMP": "jump",
        }
        return {
            f"{name}_{letter}": getattr(axis, attribute)
            for name, attribute in names.items()
            for letter, axis in zip("DHW", self.axes, strict=True)
        }


def form_of(found: Convolution, fold: int) -> Form | None:
    """Return the layout of a convolution.

    Args:
        found: The convolution.
        fold: How many of the last dimensions have their taps folded, 0 to 3; all of them make
            the layout that of a plain product over all taps and channels. `OVERLAP` reads the
            taps along the width as one row.

    Returns:
        The layout; None where taps cannot be folded: transposed convolutions with strides, and
        for `OVERLAP` taps that are no neighbours, or groups.
    """
    windows = found.windows
    if fold == OVERLAP:
        return _overlapping(found)
    strided = found.transposed and windows.stride != (1, 1, 1)
    if fold and strided:
        return None
    axes = tuple(
        _axis(found.transposed, strided, index >= 3 - fold, *values)
        for index, values in enumerate(
            zip(
                windows.size,
                windows.out,
                windows.kernel,
                windows.stride,
                windows.padding,
                windows.dilation,
                strict=True,
            )
        )
    )
    depth, height, width = axes
    return Form(axes=(depth, height, width), fold=fold)


def _overlapping(found: Convolution) -> Form | None:
    plain = form_of(found, 0)
    along = found.windows.kernel[2]
    apart = found.windows.stride[2] > 1 or found.windows.dilation[2] > 1
    if plain is None or apart or along == 1 or found.groups > 1:
        return None
    depth, height, width = plain.axes
    if width.out_stride > 1 or height.out_stride > 1 or depth.out_stride > 1:
        return None
    # The row that the foremost tap finds is the first of those read as one.
    start = width.start + min(0, width.step * (along - 1))
    width = replace(width, taps=1, start=start)
    return Form(axes=(depth, height, width), fold=OVERLAP, along=along)


def _axis(
    transposed: bool,
    strided: bool,
    folds: bool,
    size: int,
    out: int,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
) -> Axis:
    step, start = (-dilation, padding) if transposed else (dilation, -padding)
    out_stride = stride if strided else 1
    moved = 1 if transposed else stride
    grid = -(-out // out_stride)
    folds = folds and kernel > 1
    lead = start if folds else 0
    if folds:
        gap, phases, rows, start = 0, 1, grid, 0
    elif strided:
        moves = _moves(kernel, stride, padding, dilation)
        gap, phases = max(0, -min(moves)), 1
        rows = _shared(size, grid, gap, max(moves) + gap)
        start = 0
    elif moved > 1:
        gap, phases = padding, moved
        rows, start = grid + (kernel - 1) * dilation // moved, 0
    else:
        gap, phases = -min(start, start + (kernel - 1) * step), 1
        start += gap
        rows = _shared(size, grid, gap, max(start, start + (kernel - 1) * step))
    return Axis(
        size=size,
        out=out,
        taps=1 if folds else kernel,
        folded=kernel if folds else 1,
        stride=moved,
        phases=phases,
        out_stride=out_stride,
        gap=gap,
        rows=rows,
        lead=lead,
        start=start,
        step=step,
        padding=padding,
        dilation=dilation,
        jump=stride // gcd(stride, dilation) if strided else 1,
    )


def _moves(kernel: int, stride: int, padding: int, dilation: int) -> list[int]:
    """How far the taps of a strided transposed convolution reach, in input positions."""
    reached = [
        (phase + padding - tap * dilation) // stride
        for phase in range(stride)
        for tap in range(kernel)
        if (phase + padding - tap * dilation) % stride == 0
    ]
    return reached or [0]


def _shared(size: int, grid: int, gap: int, reach: int) -> int:
    """Rows so that what lies beyond the end finds the next gap's zeros."""
    return max(gap + size, grid + reach - max(gap, 0), grid)
