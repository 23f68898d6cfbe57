"""C++ text for schedules whose innermost loop runs along what is kept: columns.

Columns are worked on in tiles of TILE neighbours, vectorised along them. A tile runs down the
reduced axes once for each pass, UNROLL steps at a time; sums are kept in two levels, so that
float accumulates over CHUNK steps only. Small tiles keep their accumulators in registers, large
ones read memory in long runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operators.sketches.cpp.calls import functions
from operators.sketches.cpp.emitter import (
    C_TYPES,
    EXTREMES,
    FIRSTS,
    Emitter,
    indices,
    offset,
    update,
)
from operators.sketches.cpp.maths import PRELUDE, maths
from operators.sketches.cpp.signature import Signature
from operators.sketches.patterns.axes import contiguous_strides
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.schedule import Level, Loop, Schedule

__all__ = ["CHUNK", "Columns"]

CHUNK = 128
"""Steps over which a float accumulates alone, as in torch's cascade sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Writes the text of one schedule.

    Attributes:
        schedule: Its innermost loop is kept, another one is reduced.
        signature: What its C functions take.
    """

    schedule: Schedule
    signature: Signature

    @property
    def outer(self) -> list[Loop]:
        """The kept loops, but for the innermost."""
        return [loop for loop in self.schedule.loops if loop.kept][:-1]

    @property
    def reduced(self) -> list[Loop]:
        """The reduced loops."""
        return [loop for loop in self.schedule.loops if not loop.kept]

    @property
    def inner(self) -> Loop:
        """The innermost loop."""
        return self.schedule.loops[-1]

    @property
    def depth(self) -> int:
        """Elements of one column."""
        count = 1
        for loop in self.reduced:
            count *= loop.size
        return count

    @property
    def finds_indices(self) -> bool:
        """Some reduction is an argmax or argmin: unrolled, those are not vectorised (GCC 12)."""
        terms = self.schedule.terms
        return any(str(terms[n].payload).startswith("arg") for n in self.schedule.fields)

    def text(self) -> str:
        """Return the text of everything but the entry functions."""
        schedule = self.schedule
        terms = schedule.terms
        needed = terms.needed([schedule.computation.output.term, *schedule.row_roots()])
        kinds = {str(terms[n].payload) for n in needed if terms[n].op == "reduce"}
        called = functions(terms, needed) | {EXTREMES[k] for k in kinds if k in EXTREMES}
        rows = schedule.rows // self.inner.size
        lines = [
            PRELUDE.strip() + maths(called).rstrip(),
            "",
            f"const long ROWS = {rows}, DEPTH = {self.depth}, INNER = {self.inner.size};",
            "const long ACROSS = (INNER + TILE - 1) / TILE, TILES = ROWS * ACROSS;",
            f"typedef {C_TYPES[schedule.computation.dtype]} Out;",
            *(["#define UNROLL 1"] if self.finds_indices else []),
            "",
            *self._tile_struct(),
        ]
        for level in range(len(schedule.passes)):
            lines += ["", *self._pass(level)]
        if schedule.level is Level.ELEMENT:
            lines += ["", *self._map()]
        if schedule.row_roots():
            lines += ["", *self._close()]
        return "\n".join(lines)

    def _tile_struct(self) -> list[str]:
        """The reductions of a tile of columns; all members take 4 bytes."""
        lines = []
        for number in self.schedule.fields:
            kind = str(self.schedule.terms[number].payload)
            lines.append(f"    float {kind}{number}[TILE];")
            if kind.startswith("arg"):
                lines.append(f"    int where{number}[TILE];")
        return ["// What is reduced along each column of a tile.", "struct Tile {", *lines, "};"]

    def _emitter(self, passes: int) -> Emitter:
        known = {}
        for number in [n for group in self.schedule.passes[:passes] for n in group]:
            kind = str(self.schedule.terms[number].payload)
            known[number] = f"s.{'where' if kind.startswith('arg') else kind}{number}[l]"
        return Emitter(
            terms=self.schedule.terms,
            names=self.signature.names,
            address=self._address,
            known=known,
        )

    def _indexed(self) -> list[tuple[Loop, str]]:
        """The loops outside of the innermost, with their indices."""
        return [(loop, f"k{i}") for i, loop in enumerate(self.outer)] + [
            (loop, f"r{i}") for i, loop in enumerate(self.reduced)
        ]

    def _address(self, number: int, load: Load, picked: str) -> str:
        start = offset(dict(load.strides), self._indexed(), load.offset)
        if self.schedule.terms[number].axes & set(self.inner.axes):
            start += " + begin + l"
        if picked:
            start += f" + {picked} * {load.pick_stride}"
        return f"in_{self.signature.names[load.value]}[{start}]"

    def _steady(self, roots: Sequence[int], emitter: Emitter) -> list[str]:
        """Statements for what is constant down a column, once for each column of a tile."""
        terms = self.schedule.terms
        moving = {axis for loop in self.reduced for axis in loop.axes}
        wanted = terms.needed(roots, emitter.known)
        used = {arg for n in wanted if terms[n].axes & moving for arg in terms[n].args}
        steady = sorted(
            n
            for n in used
            if n in wanted and not terms[n].axes & moving and terms[n].op not in ("constant",)
        )
        if not steady:
            return []
        inner = Emitter(
            terms=terms, names=emitter.names, address=emitter.address, known=dict(emitter.known)
        )
        body = inner.statements(steady)
        names = {n: inner.known[n] for n in steady if terms[n].op != "scalar"}
        arrays = [f"float {name}_[TILE];" for name in names.values()]
        fills = [f"{name}_[l] = {name};" for name in names.values()]
        emitter.known.update({n: f"{name}_[l]" for n, name in names.items()})
        return [*arrays, *_along([*body, *fills])]

    def _pass(self, level: int) -> list[str]:
        """The function that runs down a tile for one pass."""
        schedule = self.schedule
        emitter = self._emitter(level)
        numbers = schedule.passes[level]
        operands = [schedule.terms[number].args[0] for number in numbers]
        steady = self._steady(operands, emitter)
        body = emitter.statements(operands)
        start, declared, chunk, close = [], [], [], []
        for number in numbers:
            kind = str(schedule.terms[number].payload)
            name = f"{kind}{number}"
            value = emitter.known[schedule.terms[number].args[0]]
            body += update(schedule, number, value, "[l]", "(int)r")
            declared.append(f"float {name}[TILE];")
            if kind == "sum":
                start.append(f"s.{name}[l] = {FIRSTS[kind]};")
                chunk.append(f"{name}[l] = {FIRSTS[kind]};")
                close.append(f"s.{name}[l] += {name}[l];")
                continue
            start.append(f"{name}[l] = {FIRSTS[kind]};")
            close.append(f"s.{name}[l] = {name}[l];")
            if kind.startswith("arg"):
                declared.append(f"int where{number}[TILE];")
                start.append(f"where{number}[l] = 0;")
                close.append(f"s.where{number}[l] = where{number}[l];")
        more = ("long row", "long begin", "int count", "Tile &s")
        return [
            f"// Pass {level + 1} down the columns of one tile.",
            f"INLINE void pass{level + 1}({self.signature.parameters(*more)}) {{",
            *_indent(indices(self.outer, "k", "row")[1] + steady + declared),
            *_indent(_along(start)),
            *_indent(self._down(body)),
            f"    for (long first = 0; first < DEPTH; first += {CHUNK}) {{",
            f"        const long last = least(DEPTH, first + {CHUNK});",
            *(_indent(_along(chunk), 8) if chunk else []),
            *_indent(_DOWN_LOOPS, 8),
            *(_indent(_along(close), 8) if chunk else []),
            "    }",
            *([] if chunk else _indent(_along(close))),
            "}",
        ]

    def _down(self, body: Sequence[str]) -> list[str]:
        """The step of one element: row `r` of the tile, column `l`."""
        return [
            "auto step = [&](long r, int l) __attribute__((always_inline)) {",
            *_indent(indices(self.reduced, "r", "r")[1]),
            *_indent(body),
            "};",
        ]

    def _map(self) -> list[str]:
        """The function that writes a tile of the output."""
        schedule = self.schedule
        emitter = self._emitter(len(schedule.passes))
        root = schedule.computation.output.term
        steady = self._steady([root], emitter)
        body = emitter.statements([root])
        start = offset(dict(schedule.stores), self._indexed())
        rows = indices(self.reduced, "r", "r")[1]
        more = ("Out *out", "long row", "long begin", "int count", "const Tile &s")
        return [
            "// Write one tile of the output.",
            f"INLINE void write({self.signature.parameters(*more)}) {{",
            *_indent(indices(self.outer, "k", "row")[1] + steady),
            "    for (long r = 0; r < DEPTH; r++) {",
            *_indent(rows, 8),
            f"        Out *__restrict target = out + {start} + begin;",
            "        auto step = [&](Out *__restrict to) __attribute__((always_inline)) {",
            *_indent(_along([*body, f"to[l] = {emitter.known[root]};"]), 12),
            "        };",
            "#if STREAM && TILE % 16 == 0",
            "        if (count == TILE && (unsigned long)target % 64 == 0) {",
            "            Out staged[TILE];",
            "            step(staged);",
            "            for (int l = 0; l < TILE; l += 16) stream16(target + l, staged + l);",
            "            continue;",
            "        }",
            "#endif",
            "        step(target);",
            "    }",
            "}",
        ]

    def _close(self) -> list[str]:
        """The function that finishes a tile: what is wanted once for each column."""
        schedule = self.schedule
        emitter = self._emitter(len(schedule.passes))
        body = emitter.statements(schedule.row_roots())
        for value, placed in schedule.computation.updates:
            strides = dict(contiguous_strides(placed.dims, schedule.computation.sizes))
            body.append(
                f"in_{self.signature.names[value]}[{self._column(strides)}]"
                f" = {emitter.known[placed.term]};"
            )
        for position, total in enumerate(schedule.totals):
            value = emitter.known[schedule.terms[total].args[0]]
            body.append(f"rows[({position} * ROWS + row) * INNER + begin + l] = {value};")
        if schedule.level is Level.ROW:
            value = emitter.known[schedule.computation.output.term]
            body.append(f"out[{self._column(schedule.stores)}] = {value};")
        more = ("Out *out", "double *rows") if schedule.totals else ("Out *out",)
        more = (*more, "long row", "long begin", "int count", "const Tile &s")
        return [
            "// Finish the columns of a tile.",
            f"INLINE void close({self.signature.parameters(*more)}) {{",
            *_indent(indices(self.outer, "k", "row")[1]),
            *_indent(_along(body)),
            "}",
        ]

    def _column(self, strides: Mapping[int, int]) -> str:
        start = offset(strides, self._indexed())
        step = strides.get(self.inner.axes[-1], 0)
        return f"{start} + (begin + l) * {step}" if step else start


_DOWN_LOOPS = (
    "long r = first;",
    "for (; r + UNROLL <= last; r += UNROLL) {",
    "#pragma omp simd",
    "    for (int l = 0; l < count; l++)",
    "        for (int u = 0; u < UNROLL; u++) step(r + u, l);",
    "}",
    "for (; r < last; r++) {",
    "#pragma omp simd",
    "    for (int l = 0; l < count; l++) step(r, l);",
    "}",
)


def _along(body: Sequence[str]) -> list[str]:
    """A loop along the columns of a tile."""
    return [
        "#pragma omp simd",
        "for (int l = 0; l < count; l++) {",
        *_indent(body),
        "}",
    ]


def _indent(lines: Iterable[str], width: int = 4) -> list[str]:
    return [line if line.startswith("#") or not line else " " * width + line for line in lines]
