"""Parts of kernels that reduce rows: indices, passes, what a row ends with.

The sketches put these parts together: a program does all of a row (`sweeps`), a part of it
(`split`), or a part of it in step with others (`groups`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operators.sketches.patterns.axes import contiguous_strides
from operators.sketches.patterns.schedule import Level, Schedule
from operators.sketches.triton.calls import functions
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.fields import Field, fields_of, online_field
from operators.sketches.triton.kernels import Arguments, indented
from operators.sketches.triton.tiles import Tile, is_wide, tile_of

__all__ = ["Rows"]

_SCALAR = "tl.zeros((1, 1), tl.int32)"
_INDEX = "column.to(tl.int32)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Writes the parts of kernels that reduce rows.

    The kernels have the constants ROWS (rows of a tile), BLOCK (its columns), and those that
    `full` defines; a tile is (ROWS, BLOCK), and what a row has one value of is (ROWS, 1).

    Attributes:
        schedule: What is computed.
        arguments: What the kernels read and update.
        tile: Where values lie.
        passes: The reductions of a row, by pass.
    """

    schedule: Schedule
    arguments: Arguments
    tile: Tile
    passes: tuple[tuple[Field, ...], ...]

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        arguments: Arguments,
        *,
        online: tuple[int, int] | None,
    ) -> Rows:
        """Prepare a schedule; `online` is a peak and a sum that are found in one pass."""
        if online is not None:
            passes: tuple[tuple[Field, ...], ...] = ((online_field(schedule, online),),)
        else:
            passes = tuple(fields_of(schedule.terms, group) for group in schedule.passes)
        tile = tile_of(schedule)
        return cls(schedule=schedule, arguments=arguments, tile=tile, passes=passes)

    @property
    def wide(self) -> bool:
        """Whether the number of a column needs 64 bits."""
        return is_wide(self.schedule, self.tile.column)

    @property
    def by_columns(self) -> bool:
        """Whether neighbours in memory are neighbouring rows."""
        return self.schedule.loops[-1].kept

    @property
    def fields(self) -> tuple[Field, ...]:
        """The reductions of a row."""
        return tuple(field for group in self.passes for field in group)

    @property
    def reads_again(self) -> bool:
        """Whether rows are read more than once where they are not held."""
        return len(self.passes) > 1 or self.schedule.level is Level.ELEMENT

    @property
    def totals(self) -> tuple[Field, ...]:
        """The reductions over rows."""
        return fields_of(self.schedule.terms, self.schedule.totals)

    @property
    def functions(self) -> set[str]:
        """Names of the functions that the kernels call, as in `calls.definitions`."""
        roots = [self.schedule.computation.output.term, *self.schedule.row_roots()]
        called = functions(self.schedule.terms, self.schedule.terms.needed(roots))
        for field in (*self.fields, *self.totals):
            called |= field.functions
        return called | {"fetch", "put"}

    def tiles(self, rows: str) -> str:
        """Return the text of the number of tiles of rows, for `rows` rows a tile."""
        count = f"(({self.tile.row.size} + {rows} - 1) // {rows})"
        return f"{self.tile.outer.size} * {count}" if self.tile.outer.loops else count

    def emitter(self, policy: str) -> Emitter:
        """Return an emitter that knows no reductions yet."""
        return Emitter(
            terms=self.schedule.terms,
            names=self.arguments.names,
            place=self.tile.place,
            policy=policy,
        )

    def full(self, columns: str = "BLOCK") -> list[str]:
        """Return statements on whether tiles fill the space, for that many columns at a time."""
        return [
            f"FULL_ROWS: tl.constexpr = {self.tile.row.size} % ROWS == 0",
            f"FULL_COLUMNS: tl.constexpr = {self.tile.column.size} % {columns} == 0",
            "FULL: tl.constexpr = FULL_ROWS and FULL_COLUMNS",
        ]

    def row(self, tile: str) -> list[str]:
        """Return statements that define the rows of a tile, by the text of its number."""
        size = self.tile.row.size
        wide = is_wide(self.schedule, *self.tile.sides)
        number = f"{tile}.to(tl.int64)" if wide else tile
        lines = []
        if self.tile.outer.loops:
            lines.append(f"strips = ({size} + ROWS - 1) // ROWS")
            lines.append(f"outer = {number} // strips")
            number = f"({tile} % strips)"
        return [
            *lines,
            f"row = {number} * ROWS + tl.arange(0, ROWS)[:, None]",
            f"row_inside = row < {size}",
        ]

    def column(self, start: str) -> list[str]:
        """Return statements that define the columns of a tile, by the text of its first one.

        That is a multiple of BLOCK, and BLOCK is at most `GRANULE`.
        """
        index = "tl.arange(0, BLOCK)[None, :]"
        if self.wide:
            index = f"{index}.to(tl.int64)"
        return [
            *([] if start == "start" else [f"start = {start}"]),
            f"column = start + {index}",
            f"column_inside = column < {self.tile.column.size}",
            "inside = row_inside & column_inside",
        ]

    def by_row(self, emitter: Emitter, roots: Iterable[int]) -> list[str]:
        """Return statements for what some terms stand on that has one value for a row."""
        terms, columns = self.schedule.terms, self.tile.column.axes
        needed = terms.needed(roots, emitter.known)
        return emitter.statements([number for number in needed if not terms[number].axes & columns])

    def starts(self, group: Sequence[Field], shape: str = "(ROWS, BLOCK)") -> list[str]:
        """Return statements that start the lanes of some reductions."""
        return [line for field in group for line in field.starts(shape)]

    def takes(self, emitter: Emitter, group: Sequence[Field]) -> list[str]:
        """Return statements that start the lanes of some reductions with a tile's values."""
        lines = emitter.statements([field.value for field in group])
        for field in group:
            value = emitter.known[field.value]
            lines += field.takes(value, _INDEX, "inside", "FULL", "(ROWS, BLOCK)")
        return lines

    def updates(self, emitter: Emitter, group: Sequence[Field]) -> list[str]:
        """Return statements that take a tile's values into the lanes of some reductions."""
        lines = emitter.statements([field.value for field in group])
        for field in group:
            value = emitter.known[field.value]
            lines += field.updates(value, _INDEX, "inside", "FULL")
        return lines

    def folds(self, emitter: Emitter, group: Sequence[Field], axis: int = 1) -> list[str]:
        """Return statements that fold lanes for the last time; the results are known then."""
        for field in group:
            emitter.known.update(field.results)
        return [line for field in group for line in (*field.folds(axis), *field.closes())]

    def loop(self, bounds: str, body: Sequence[str]) -> list[str]:
        """Return a loop over the tiles of a row, by the text of its bounds and step."""
        head = f"for start in tl.range({bounds}, num_stages=STAGES):"
        return [head, *indented([*self.column("start"), *body])]

    def output(self, emitter: Emitter) -> list[str]:
        """Return statements that write a tile of the output."""
        root = self.schedule.computation.output.term
        lines = emitter.statements([root])
        return [*lines, self._put("out_ptr", root, self.schedule.stores, emitter)]

    def close(self, emitter: Emitter) -> list[str]:
        """Return statements that end a row: updates, and the output where a row has one."""
        schedule = self.schedule
        lines = []
        for value, placed in schedule.computation.updates:
            lines += emitter.statements([placed.term])
            strides = dict(contiguous_strides(placed.dims, schedule.computation.sizes))
            pointer = f"{self.arguments.names[value]}_ptr"
            lines.append(self._put(pointer, placed.term, strides, emitter))
        if schedule.level is Level.ROW:
            lines += self.output(emitter)
        return lines

    def count(self, emitter: Emitter) -> list[str]:
        """Return statements that take the rows of a tile into the totals."""
        lines = emitter.statements([total.value for total in self.totals])
        for total in self.totals:
            value = emitter.known[total.value]
            lines += total.updates(value, self.tile.row_index, "row_inside", "FULL_ROWS")
        return lines

    def _put(self, pointer: str, number: int, strides: Mapping[int, int], emitter: Emitter) -> str:
        place = self.tile.place(self.schedule.terms[number].axes, strides)
        offset = _SCALAR if place.offset == "0" else place.offset
        value = emitter.known[number]
        return f"put({pointer} + {offset}, {value}, {place.inside}, {place.full}, CACHE)"
