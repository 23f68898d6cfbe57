"""C++ text for schedules whose innermost loop runs along what is reduced, or along everything.

A row (or, where nothing or everything is reduced, the whole tensor) is swept in parts of at most
BLOCK elements. In a part, LANES values are worked on at a time, each lane with an accumulator of
its own; lanes are folded pairwise and parts are summed in double. One C call does everything
("whole"), or one for each pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from operators.sketches.cpp.total import total_text
from operators.sketches.patterns.axes import contiguous_strides
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.schedule import Level, Loop, Schedule

__all__ = ["Sweep", "fold"]

_FOLD = """
// Fold lanes pairwise into the first.
template <int COUNT> INLINE float folded(float (&lanes)[COUNT]) {
    for (int width = COUNT / 2; width; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Writes the text of one schedule.

    Attributes:
        schedule: Its innermost loop is reduced, or nothing is.
        signature: What its C functions take.
        kept: A term that the last pass leaves in the output, from where the output is made; None:
            everything is computed anew.
    """

    schedule: Schedule
    signature: Signature
    kept: int | None = None

    def pass_call(self, level: int, row: str, part: str, target: str) -> str:
        """Return the call of one pass, levels from 0, over one part of a row."""
        out = ["out"] if self._keeps_in(level) else []
        return f"pass{level + 1}({self.signature.arguments(*out, row, part, target)});"

    @property
    def rows(self) -> list[Loop]:
        """The loops over rows."""
        return [loop for loop in self.schedule.loops if loop.kept]

    @property
    def segments(self) -> list[Loop]:
        """The loops over a row, but for the innermost."""
        return [loop for loop in self.schedule.loops if not loop.kept][:-1]

    @property
    def inner(self) -> Loop:
        """The innermost loop."""
        return self.schedule.loops[-1]

    @property
    def num_segments(self) -> int:
        """Runs of the innermost loop in a row."""
        count = 1
        for loop in self.segments:
            count *= loop.size
        return count

    def _keeps_in(self, level: int) -> bool:
        """Tell whether a pass writes the kept term to the output."""
        return self.kept is not None and level == len(self.schedule.passes) - 1

    def text(self) -> str:
        """Return the whole C++ text."""
        schedule = self.schedule
        roots = [schedule.computation.output.term, *schedule.row_roots()]
        needed = schedule.terms.needed(roots)
        called = functions(schedule.terms, needed)
        kinds = {schedule.terms[n].payload for n in needed if schedule.terms[n].op == "reduce"}
        called |= {EXTREMES[str(kind)] for kind in kinds if kind in EXTREMES}
        out = C_TYPES[schedule.computation.dtype]
        lines = [
            PRELUDE.strip() + maths(called).rstrip(),
            _FOLD.rstrip() if "sum" in kinds else "",
            f"const long ROWS = {schedule.rows}, SEGMENTS = {self.num_segments}, "
            f"INNER = {self.inner.size};",
            "const long BLOCKS = (INNER + BLOCK - 1) / BLOCK, PARTS = SEGMENTS * BLOCKS;",
            f"typedef {out} Out;",
            "",
            *self._row_struct(),
        ]
        for level in range(len(schedule.passes)):
            lines += ["", *self._pass(level)]
        if schedule.level is Level.ELEMENT:
            lines += ["", *self._map()]
        if schedule.row_roots():
            lines += ["", *self._close()]
        total = total_text(schedule, self.signature, "ROWS")
        lines += ["", total] if total else []
        return "\n".join(lines)

    def _row_struct(self) -> list[str]:
        """The reductions of one row; all members take 8 bytes."""
        lines = []
        for number in self.schedule.fields:
            kind = str(self.schedule.terms[number].payload)
            lines.append(f"    double {kind}{number} = {FIRSTS[kind]};")
            if kind.startswith("arg"):
                lines.append(f"    long where{number} = 0;")
        if not lines:
            return []
        return ["// What is reduced along a row.", "struct Row {", *lines, "};"]

    def _emitter(self, passes: int) -> Emitter:
        """An emitter inside a part that knows the reductions of some passes."""
        schedule = self.schedule
        known = {}
        for number in [n for group in schedule.passes[:passes] for n in group]:
            kind = str(schedule.terms[number].payload)
            is_index = kind.startswith("arg")
            known[number] = f"s.where{number}" if is_index else f"{kind}{number}"
        return Emitter(
            terms=schedule.terms, names=self.signature.names, address=self._address, known=known
        )

    def _address(self, number: int, load: Load, picked: str) -> str:
        if self.schedule.terms[number].axes & set(self.inner.axes) and not picked:
            return f"{self.signature.names[load.value]}{number}_[i + l]"
        start = offset(dict(load.strides), self._outer(), load.offset)
        if picked:
            step = dict(load.strides).get(self.inner.axes[-1], 0)
            along = f" + (begin + i + l) * {step}" if step else ""
            start = f"{start}{along} + {picked} * {load.pick_stride}"
        return f"in_{self.signature.names[load.value]}[{start}]"

    def _outer(self) -> list[tuple[Loop, str]]:
        """The loops outside of the innermost, with their indices."""
        rows, segments = self.rows, self.segments
        return [(loop, f"k{i}") for i, loop in enumerate(rows)] + [
            (loop, f"r{i}") for i, loop in enumerate(segments)
        ]

    def _reduced(self, roots: Sequence[int], emitter: Emitter) -> list[str]:
        """Statements that read the reductions of earlier passes that some terms use."""
        terms = self.schedule.terms
        used = {arg for n in terms.needed(roots, emitter.known) for arg in terms[n].args}
        used |= set(roots)
        lines = []
        for number in sorted(used & set(emitter.known)):
            name = emitter.known[number]
            if terms[number].op == "reduce" and not name.startswith("s."):
                lines.append(f"const float {name} = s.{name};")
        return lines

    def _opening(self, roots: Sequence[int], emitter: Emitter) -> list[str]:
        """Statements before the innermost loop: where it lies, and what is constant along it."""
        schedule = self.schedule
        inner = set(self.inner.axes)
        lines = [
            *indices(self.rows, "k", "row")[1],
            *indices(self.segments, "r", "(part / BLOCKS)")[1],
            "const long begin = part % BLOCKS * BLOCK, count = least(BLOCK, INNER - begin);",
            *self._reduced(roots, emitter),
        ]
        wanted = schedule.terms.needed(roots, emitter.known)
        for number in wanted:
            load = schedule.terms[number].payload
            if not isinstance(load, Load) or load.picked is not None:
                continue
            if schedule.terms[number].axes & inner:
                start = offset(dict(load.strides), self._outer(), load.offset)
                name = self.signature.names[load.value]
                pointer = f"const {C_TYPES[load.dtype]} *__restrict {name}{number}_"
                lines.append(f"{pointer} = in_{name} + {start} + begin;")
        steady = [n for n in wanted if not schedule.terms[n].axes & inner]
        return lines + emitter.statements(steady)

    def _pass(self, level: int) -> list[str]:
        """The function that takes one part of a row into the reductions of a pass."""
        schedule = self.schedule
        out = ["Out *out"] if self._keeps_in(level) else []
        parameters = self.signature.parameters(*out, "long row", "long part", "Row &s")
        numbers = schedule.passes[level]
        emitter = self._emitter(level)
        operands = [schedule.terms[number].args[0] for number in numbers]
        opening = self._opening(operands, emitter)
        body = emitter.statements(operands)
        if self._keeps_in(level):
            place = offset(dict(schedule.stores), self._outer())
            opening.append(f"Out *target = out + {place} + begin;")
            body.append(f"target[i + l] = {emitter.known[self.kept or 0]};")
        start = []
        close = []
        for number in numbers:
            kind = str(schedule.terms[number].payload)
            value = emitter.known[schedule.terms[number].args[0]]
            position = "(int)(part / BLOCKS * INNER + begin + i) + l"
            body += update(schedule, number, value, "[l]", position)
            names = f"{kind}{number}[LANES]"
            start.append(f"float {names};")
            fill = f"{kind}{number}[l] = {FIRSTS[kind]};"
            if kind.startswith("arg"):
                start.append(f"int where{number}[LANES];")
                fill += f" where{number}[l] = 0x7fffffff;"
            start.append(f"for (int l = 0; l < LANES; l++) {{ {fill} }}")
            close += _fold_lanes(kind, number)
        return [
            f"// Pass {level + 1} over one part of a row.",
            f"INLINE void pass{level + 1}({parameters}) {{",
            *_indent([*opening, *start, *_lanes_loop(body), *close]),
            "}",
        ]

    def _map(self) -> list[str]:
        """The function that writes one part of the output."""
        schedule = self.schedule
        emitter = self._emitter(len(schedule.passes))
        if self.kept is not None:
            emitter.known[self.kept] = "target[i + l]"
        root = schedule.computation.output.term
        opening = self._opening([root], emitter)
        body = [*emitter.statements([root]), f"to[l] = {emitter.known[root]};"]
        start = offset(dict(schedule.stores), self._outer())
        more = ["Out *out", "long row", "long part", *(["const Row &s"] if schedule.passes else [])]
        restrict = "" if self.kept is not None else "__restrict "
        return [
            "// Write one part of the output.",
            f"INLINE void write({self.signature.parameters(*more)}) {{",
            *_indent([*opening, f"Out *{restrict}target = out + {start} + begin;"]),
            *_indent(_write_loop(body, restrict)),
            "}",
        ]

    def _close(self) -> list[str]:
        """The function that finishes a row: what is wanted once for each row."""
        schedule = self.schedule
        emitter = self._emitter(len(schedule.passes))
        lines = indices(self.rows, "k", "row")[1]
        lines += self._reduced(schedule.row_roots(), emitter)
        lines += emitter.statements(schedule.row_roots())
        outer = self._outer()
        for value, placed in schedule.computation.updates:
            strides = dict(contiguous_strides(placed.dims, schedule.computation.sizes))
            place = f"in_{self.signature.names[value]}[{offset(strides, outer)}]"
            lines.append(f"{place} = {emitter.known[placed.term]};")
        for position, total in enumerate(schedule.totals):
            value = emitter.known[schedule.terms[total].args[0]]
            lines.append(f"rows[{position} * ROWS + row] = {value};")
        if schedule.level is Level.ROW:
            place = f"out[{offset(dict(schedule.stores), outer)}]"
            lines.append(f"{place} = {emitter.known[schedule.computation.output.term]};")
        more = ["Out *out"] if schedule.level is not Level.TOTAL else ["double *rows"]
        return [
            "// Finish a row.",
            f"INLINE void close({self.signature.parameters(*more, 'long row', 'const Row &s')}) {{",
            *_indent(lines),
            "}",
        ]


def _indent(lines: Iterable[str], width: int = 4) -> list[str]:
    return [line if line.startswith("#") or not line else " " * width + line for line in lines]


def _lanes_loop(body: Sequence[str]) -> list[str]:
    return [
        "auto step = [&](long i, int lanes) __attribute__((always_inline)) {",
        "#pragma omp simd",
        "    for (int l = 0; l < lanes; l++) {",
        *_indent(body, 8),
        "    }",
        "};",
        "long i = 0;",
        "for (; i + LANES <= count; i += LANES) step(i, LANES);",
        "step(i, count - i);",
    ]


def _write_loop(body: Sequence[str], restrict: str) -> list[str]:
    return [
        f"auto step = [&](long i, int lanes, Out *{restrict}to) __attribute__((always_inline)) {{",
        "#pragma omp simd",
        "    for (int l = 0; l < lanes; l++) {",
        *_indent(body, 8),
        "    }",
        "};",
        "long i = 0;",
        "#if STREAM",
        "i = least(count, (64 - (unsigned long)target % 64) % 64 / sizeof(Out));",
        "step(0, i, target);",
        "for (; i + LANES <= count; i += LANES) {",
        "    Out staged[LANES];",
        "    step(i, LANES, staged);",
        "    for (int l = 0; l < LANES; l += 16) stream16(target + i + l, staged + l);",
        "}",
        "#endif",
        "for (; i + LANES <= count; i += LANES) step(i, LANES, target + i);",
        "step(i, count - i, target + i);",
    ]


def fold(kind: str, number: int, value: str, where: str) -> list[str]:
    """Return statements that take one more value into the reduction of a row `s`.

    Args:
        kind: Kind of the reduction.
        number: Number of its term.
        value: Text of the value, without brackets around it.
        where: For an index: what stands before `where{number}` in the text of the value's index.
    """
    name = f"s.{kind}{number}"
    if kind == "sum":
        return [f"{name} += {value};"]
    if kind in EXTREMES:
        return [f"{name} = {EXTREMES[kind]}({name}, {value});"]
    sign = ">" if kind == "argmax" else "<"
    is_nan, had_nan = f"{value} != {value}", f"{name} != {name}"
    index = f"{where}where{number}"
    return [
        f"const bool equal{number} = {value} == {name} || ({is_nan} && {had_nan});",
        f"const bool better{number} = {value} {sign} {name} || ({is_nan} && !({had_nan}));",
        f"if (better{number} || (equal{number} && {index} < s.where{number})) {{",
        f"    {name} = {value};",
        f"    s.where{number} = {index};",
        "}",
    ]


def _fold_lanes(kind: str, number: int) -> list[str]:
    name = f"{kind}{number}"
    if kind == "sum":
        return [f"s.{name} += folded({name});"]
    if kind in EXTREMES:
        return [f"for (int l = 0; l < LANES; l++) {fold(kind, number, f'{name}[l]', '')[0]}"]
    return [
        "for (int l = 0; l < LANES; l++) {",
        f"    const long lane_where{number} = where{number}[l];",
        f"    if (lane_where{number} == 0x7fffffff) continue;",
        *_indent(fold(kind, number, f"{name}[l]", "lane_")),
        "}",
    ]
