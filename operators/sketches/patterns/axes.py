"""Axes: one iteration space for all shapes of a graph, and values placed in it.

The space is the common refinement of all shapes with the most elements: (4, 6, 35) and
(4, 2, 3, 35) share the axes 4, 2, 3, 35. A view of a contiguous tensor then only regroups axes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Placed", "aligned", "contiguous_strides", "grouped", "refined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A value in the iteration space.

    Attributes:
        term: Number of its term; -1 for a tensor whose place is not known yet.
        dims: For each dimension the axes it runs over, outermost first; none where the size is 1
            or the value is repeated.
        value: Name of the input, parameter or buffer that it is all of; "" if it is computed.
        shape: Its shape where the place is not known yet.
    """

    term: int
    dims: tuple[tuple[int, ...], ...] = ()
    value: str = ""
    shape: tuple[int, ...] = ()

    def without(self, dims: Collection[int]) -> Placed:
        """Return the value without some dimensions, along which it is constant."""
        kept = (axes for dim, axes in enumerate(self.dims) if dim not in dims)
        return Placed(term=self.term, dims=tuple(kept))


def refined(shapes: Iterable[Sequence[int]]) -> tuple[int, ...] | None:
    """Return the sizes of the coarsest axes that every one of some shapes is a grouping of.

    Args:
        shapes: Shapes with equal numbers of elements.

    Returns:
        Sizes, outermost first, none of them 1; None where the shapes cut across each other.
    """
    cuts = {1}
    for shape in shapes:
        inner = 1
        for size in reversed(shape):
            inner *= size
            cuts.add(inner)
    steps = sorted(cuts)
    sizes = []
    for inner, outer in itertools.pairwise(steps):
        if outer % inner:
            return None
        sizes.append(outer // inner)
    return tuple(reversed(sizes))


def grouped(
    axes: Sequence[int], sizes: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[int, ...], ...] | None:
    """Group axes into dimensions of a shape.

    Args:
        axes: Axes, outermost first.
        sizes: Sizes of all axes of the space.
        shape: The shape wanted.

    Returns:
        For each dimension its axes; None where a dimension would cut an axis.
    """
    left = list(axes)
    dims = []
    for size in shape:
        group = []
        count = 1
        while count < size and left:
            group.append(left.pop(0))
            count *= sizes[group[-1]]
        if count != size:
            return None
        dims.append(tuple(group))
    return None if left else tuple(dims)


def aligned(
    shape: Sequence[int], dims: Sequence[tuple[int, ...]], sizes: Sequence[int]
) -> tuple[tuple[int, ...], ...] | None:
    """Place a shape against the last dimensions of a placed value, as broadcasting does."""
    if len(shape) > len(dims):
        return None
    placed: list[tuple[int, ...]] = []
    for size, axes in zip(shape, dims[len(dims) - len(shape) :], strict=True):
        if size == 1:
            placed.append(())
        elif size == math.prod(sizes[axis] for axis in axes):
            placed.append(axes)
        else:
            return None
    return tuple(placed)


def contiguous_strides(
    dims: Iterable[tuple[int, ...]], sizes: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """Return (axis, stride) of a contiguous tensor with these dimensions, by axis."""
    strides = []
    step = 1
    for axis in reversed([axis for axes in dims for axis in axes]):
        strides.append((axis, step))
        step *= sizes[axis]
    return tuple(sorted(strides))
