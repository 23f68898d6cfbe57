"""Tiles: what part of the iteration space a program works on, and where values lie for it.

A tile has rows (kept axes) and columns (reduced axes), or is flat where nothing is reduced. Each
side is one index over several neighbouring loops; offsets take it apart only where a tensor's
strides demand that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.schedule import Loop, Schedule

__all__ = ["GRANULE", "Place", "Side", "Tile", "is_wide", "tile_of"]

GRANULE = 32768
"""The longest tile, a power of two: tiles do not cross multiples of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a value lies.

    Attributes:
        offset: Text of its offset in elements.
        inside: Text of the mask; "None" for a value that is the same everywhere.
        full: Text of the constant that tells whether the mask may be left out.
    """

    offset: str
    inside: str
    full: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One index of a tile.

    Attributes:
        name: Text of the index.
        loops: The loops it runs over, outermost first.
        start: Text of its first value in a tile, which is a multiple of the tile's length, or "".
    """

    name: str
    loops: tuple[Loop, ...]
    start: str = ""

    @property
    def size(self) -> int:
        """Values of the index."""
        return math.prod(loop.size for loop in self.loops)

    @property
    def axes(self) -> frozenset[int]:
        """The axes of its loops."""
        return frozenset(axis for loop in self.loops for axis in loop.axes)

    def offset(self, strides: Mapping[int, int]) -> list[str]:
        """Return the addends of an offset, from strides in elements by axis.

        What is the same in a whole tile is taken from its first index, and so is a plain number.
        """
        parts: list[str] = []
        inner = 1
        steps = [(loop.size, strides.get(loop.axes[-1], 0)) for loop in self.loops]
        runs = _runs(steps)
        for position, (size, step) in enumerate(reversed(runs)):
            name = self.start if self.start and inner % GRANULE == 0 else self.name
            index = name if inner == 1 else f"{name} // {inner}"
            if position < len(runs) - 1:
                index = f"{index} % {size}"
            if step:
                index = f"({index})" if " " in index else index
                parts.append(index if step == 1 else f"{index} * {step}")
            inner *= size
        return parts[::-1]


def _runs(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join neighbours that a tensor runs through as through one: sizes and strides."""
    runs: list[tuple[int, int]] = []
    for size, step in steps:
        if runs and runs[-1][1] == step * size:
            runs[-1] = (runs[-1][0] * size, step)
        elif size > 1 or not runs:
            runs.append((size, step))
    return runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A part of the iteration space, as local variables of a kernel.

    Attributes:
        outer: Kept loops whose index is the same in the whole tile.
        row: Kept loops along the tile's first dimension.
        column: Reduced loops along its second; all loops where the tile is flat.
        flat: Whether there is one dimension only.
    """

    outer: Side
    row: Side
    column: Side
    flat: bool = False

    @property
    def sides(self) -> tuple[Side, Side, Side]:
        """All indices, outermost first."""
        return self.outer, self.row, self.column

    def place(self, axes: frozenset[int], strides: Mapping[int, int]) -> Place:
        """Return where a value lies that depends on some axes."""
        parts = [part for side in self.sides for part in side.offset(strides)]
        offset = " + ".join(parts) or "0"
        by_row = bool(axes & self.row.axes)
        by_column = bool(axes & self.column.axes)
        if by_column and self.column.start and self.column.name not in _words(offset):
            inside = f"{self.column.start} < {self.column.size}"
            inside = f"row_inside & ({inside})" if by_row else inside
            return Place(offset=offset, inside=inside, full="FULL")
        if self.flat or (by_column and (by_row or not self.row.loops)):
            return Place(offset=offset, inside="inside", full="FULL")
        if by_column:
            return Place(offset=offset, inside="column_inside", full="FULL_COLUMNS")
        if by_row:
            return Place(offset=offset, inside="row_inside", full="FULL_ROWS")
        return Place(offset=offset, inside="None", full="True")

    @property
    def row_index(self) -> str:
        """Text of the number of a row among all rows."""
        if not self.outer.loops:
            return "row"
        return f"(outer * {self.row.size} + row)"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def tile_of(schedule: Schedule) -> Tile:
    """Return the tile that suits a schedule.

    Where the innermost loop is kept, rows run along it alone, so that neighbours in a tile are
    neighbours in memory; else they run over all kept loops.
    """
    kept = tuple(loop for loop in schedule.loops if loop.kept)
    reduced = tuple(loop for loop in schedule.loops if not loop.kept)
    split = len(kept) - 1 if kept and schedule.loops[-1].kept else 0
    return Tile(
        outer=Side(name="outer", loops=kept[:split]),
        row=Side(name="row", loops=kept[split:]),
        column=Side(name="column", loops=reduced, start="start"),
    )


def _reach(side: Side, schedule: Schedule) -> int:
    """The largest offset that an index leads to, and its own end."""
    sizes = schedule.computation.sizes
    maps = [dict(t.payload.strides) for t in schedule.terms.terms if isinstance(t.payload, Load)]
    maps.append(dict(schedule.stores))
    far = max(sum(steps.get(a, 0) * (sizes[a] - 1) for a in side.axes) for steps in maps)
    return max(far, side.size)


def is_wide(schedule: Schedule, *sides: Side) -> bool:
    """Tell whether offsets along some sides together, those just outside too, need 64 bits."""
    return sum(_reach(side, schedule) for side in sides) >= (1 << 31) - (1 << 22)
