"""The programs over `Sweep`: entry functions in C++, parameters, and the body of `forward`."""

from __future__ import annotations

from dataclasses import dataclass

from operators.sketches.cpp.calls import functions
from operators.sketches.cpp.maths import choice_of_maths
from operators.sketches.cpp.online import join_text, online_lines
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.cpp.signature import Signature
from operators.sketches.cpp.sweep import Sweep, fold
from operators.sketches.module import local_names
from operators.sketches.patterns.schedule import Level, Schedule
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["write_sweep"]

_END = ("#if STREAM", "    stream_end();", "#endif")
_PARALLEL = "#pragma omp parallel for schedule(static) if (omp_get_max_threads() > 1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """Writes the C functions that Python calls.

    Attributes:
        sweep: The text of the passes.
        online: Peak and sum of exponentials that are found in one sweep, or None.
    """

    sweep: Sweep
    online: tuple[int, int] | None = None

    @property
    def schedule(self) -> Schedule:
        return self.sweep.schedule

    @property
    def signature(self) -> Signature:
        return self.sweep.signature

    @property
    def by_rows(self) -> bool:
        """Rows run in parallel; otherwise the parts of the only row do."""
        return bool(self.sweep.rows)

    @property
    def stages(self) -> int:
        """C calls where each pass has its own."""
        reducing = len(self.schedule.passes) if self.online is None else 1
        return reducing + (self.schedule.level is Level.ELEMENT)

    @property
    def buffers(self) -> tuple[str, ...]:
        """What every entry takes after the inputs."""
        names = ["out"]
        if self.schedule.totals:
            names.append("rows")
        if self.schedule.passes and (self.stages > 1 or not self.by_rows):
            names.append("stats")
        return tuple(names)

    def parameters(self) -> str:
        types = {"out": "Out *out", "rows": "double *rows", "stats": "Row *stats"}
        return self.signature.parameters(*(types[name] for name in self.buffers))

    def text(self) -> str:
        """Return the text of all entries."""
        if not self.schedule.passes:
            return "\n".join(self._pointwise())
        lines = self._by_rows() if self.by_rows else self._by_parts()
        if self.online is not None:
            lines = [join_text(self.online), "", *lines]
        return "\n".join(lines)

    def _pointwise(self) -> list[str]:
        return [
            f'extern "C" void whole({self.signature.parameters("Out *out", "long call")}) {{',
            "    const long first = PARTS * call / CALLS, last = PARTS * (call + 1) / CALLS;",
            _PARALLEL,
            "    for (long part = first; part < last; part++)",
            f"        write({self.signature.arguments('out', '0', 'part')});",
            *_END,
            "}",
        ]

    def _finish(self, row: str, indent: str) -> list[str]:
        """Statements that finish a row whose reductions are in `s`."""
        lines = []
        if self.schedule.row_roots():
            target = "rows" if self.schedule.level is Level.TOTAL else "out"
            lines.append(f"close({self.signature.arguments(target, row, 's')});")
        if self.schedule.level is Level.ELEMENT:
            if not self.by_rows:
                lines.append(_PARALLEL)
            lines.append("for (long part = 0; part < PARTS; part++)")
            lines.append(f"    write({self.signature.arguments('out', row, 'part', 's')});")
        return [line if line.startswith("#") else indent + line for line in lines]

    def _last(self) -> list[str]:
        """Statements that end a call: what is reduced over rows, the order of streamed stores."""
        if self.schedule.level is Level.ELEMENT:
            return list(_END)
        if self.schedule.level is not Level.TOTAL:
            return []
        return [f"    total({self.signature.arguments('out', 'rows')});"]

    def _by_rows(self) -> list[str]:
        sweeps = [
            "        for (long part = 0; part < PARTS; part++) "
            + self.sweep.pass_call(level, "row", "part", "s")
            for level in range(len(self.schedule.passes))
        ]
        if self.online is not None:
            lines = online_lines(self.online, self.signature)
            sweeps = ["\n".join(" " * 8 + line for line in lines)]
        rows = [_PARALLEL, "    for (long row = 0; row < ROWS; row++) {"]
        lines = [
            f'extern "C" void whole({self.parameters()}) {{',
            *rows,
            "        Row s;",
            *sweeps,
            *self._finish("row", " " * 8),
            "    }",
            *self._last(),
            "}",
        ]
        if self.stages == 1:
            return lines
        for number in range(1, self.stages + 1):
            is_last = number == self.stages
            start = "Row s;" if number == 1 else "Row s = stats[row];"
            lines += [
                "",
                f'extern "C" void stage{number}({self.parameters()}) {{',
                *rows,
                f"        {start}",
                *sweeps[number - 1 : number],
                *(self._finish("row", " " * 8) if is_last else ["        stats[row] = s;"]),
                "    }",
                *(self._last() if is_last else []),
                "}",
            ]
        return lines

    def _by_parts(self) -> list[str]:
        lines: list[str] = []
        for number in range(1, len(self.schedule.passes) + 1):
            merged = []
            for field in self.schedule.passes[number - 1]:
                kind = str(self.schedule.terms[field].payload)
                merged += fold(kind, field, "stats[part]." + f"{kind}{field}", "stats[part].")
            parameters = self.signature.parameters("Row *stats", "Row &s")
            lines += [
                f"INLINE void reduce{number}({parameters}) {{",
                _PARALLEL,
                "    for (long part = 0; part < PARTS; part++) {",
                "        stats[part] = s;",
                f"        {self.sweep.pass_call(number - 1, '0', 'part', 'stats[part]')}",
                "    }",
                "    for (long part = 0; part < PARTS; part++) {",
                *(" " * 8 + line for line in merged),
                "    }",
                "}",
                "",
            ]
        calls = [
            f"    reduce{number}({self.signature.arguments('stats', 's')});"
            for number in range(1, len(self.schedule.passes) + 1)
        ]
        lines += [
            f'extern "C" void whole({self.parameters()}) {{',
            "    Row s;",
            *calls,
            *self._finish("0", " " * 4),
            *self._last(),
            "}",
        ]
        if self.stages == 1:
            return lines
        for number in range(1, self.stages + 1):
            start = "Row s;" if number == 1 else "Row s = stats[PARTS];"
            is_last = number == self.stages
            lines += [
                "",
                f'extern "C" void stage{number}({self.parameters()}) {{',
                f"    {start}",
                *calls[number - 1 : number],
                *(self._finish("0", " " * 4) if is_last else ["    stats[PARTS] = s;"]),
                *(self._last() if is_last else []),
                "}",
            ]
        return lines


def write_sweep(
    problem: Problem,
    graph: OperatorGraph,
    schedule: Schedule,
    summary: str,
    *,
    kept: int | None = None,
    online: tuple[int, int] | None = None,
) -> str | None:
    """Write a program that sweeps rows, or the whole tensor, in parts.

    Args:
        problem: The problem.
        graph: Its graph.
        schedule: What to do; its innermost loop is a reduced one, or nothing is reduced.
        summary: One sentence for the module's docstring.
        kept: A term that the last pass leaves in the output, for schedules over rows.
        online: Peak and sum of exponentials to be found in one sweep, for schedules over rows.

    Returns:
        The text; None where the reference's forward cannot be taken over.
    """
    names = local_names(problem, graph)
    if names is None:
        return None
    signature = Signature.of(schedule, names)
    sweep = Sweep(schedule=schedule, signature=signature, kept=kept)
    entries = _Entries(sweep=sweep, online=online)
    space, configuration = _parameters(entries)
    cpp = sweep.text() + "\n\n" + entries.text()
    letters = signature.letters() + "p" * len(entries.buffers)
    letters += "" if schedule.passes else "l"
    functions = {"whole": letters}
    if entries.stages > 1 and schedule.passes:
        functions |= {f"stage{number}": letters for number in range(1, entries.stages + 1)}
    program = CppProgram(
        summary=summary,
        space=space,
        configuration=configuration,
        cpp=cpp,
        functions=functions,
        values=signature.values,
        body=tuple(_body(entries)),
    )
    return write_program(problem, graph, program)


def _parameters(entries: _Entries) -> tuple[dict[str, list[int | bool]], dict[str, int | bool]]:
    schedule = entries.schedule
    is_map = schedule.level is Level.ELEMENT
    space: dict[str, list[int | bool]] = {
        "LANES": [16, 32, 64, 128],
        "BLOCK": [1024, 4096, 16384, 65536],
        "VECTOR_BITS": [256, 512],
    }
    chosen: dict[str, int | bool] = {"LANES": 64, "BLOCK": 16384, "VECTOR_BITS": 512}
    if is_map:
        space["STREAM"] = [False, True]
        chosen["STREAM"] = schedule.outgrows_caches and entries.sweep.kept is None
    if schedule.passes and entries.stages > 1:
        space["FUSED"] = [True, False]
        chosen["FUSED"] = True
    if not schedule.passes:
        space["CALLS"] = [1, 2, 3, 6]
        chosen["CALLS"] = 1
    if choice_of_maths(functions(schedule.terms, range(len(schedule.terms.terms)))):
        space["LIBRARY_MATHS"] = [False, True]
        chosen["LIBRARY_MATHS"] = False
    return space, chosen


def _body(entries: _Entries) -> list[str]:
    schedule, sweep = entries.schedule, entries.sweep
    lines = list(schedule.opening())
    if "rows" in entries.buffers:
        count = len(schedule.totals) * schedule.rows
        lines.append(f"rows = torch.empty({count}, dtype=torch.float64)")
    if "stats" in entries.buffers:
        kinds = [str(schedule.terms[number].payload) for number in schedule.fields]
        words = len(kinds) + sum(kind.startswith("arg") for kind in kinds)
        if entries.by_rows:
            size = str(schedule.rows * words)
        else:
            parts = f'-(-{sweep.inner.size} // CONFIG["BLOCK"])'
            size = f"({parts} * {sweep.num_segments} + 1) * {words}"
        lines.append(f"stats = torch.empty({size}, dtype=torch.float64)")
    pointers = entries.signature.pointers()
    pointers += [f"{name}.data_ptr()" for name in entries.buffers]
    if not schedule.passes:
        lines.append('for call in range(CONFIG["CALLS"]):')
        lines.append(f"    KERNELS.whole({', '.join(pointers)}, call)")
        return [*lines, "return out"]
    return [*lines, *schedule.calls(pointers, entries.stages), "return out"]
