"""The programs over `Columns`: entry functions in C++, parameters, and the body of `forward`."""

from __future__ import annotations

from dataclasses import dataclass

from operators.sketches.cpp.calls import functions
from operators.sketches.cpp.columns import Columns
from operators.sketches.cpp.maths import choice_of_maths
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.cpp.signature import Signature
from operators.sketches.cpp.total import total_text
from operators.sketches.module import local_names
from operators.sketches.patterns.schedule import Level, Schedule
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["write_columns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """Writes the C functions that Python calls.

    Attributes:
        columns: The text of the passes.
    """

    columns: Columns

    @property
    def schedule(self) -> Schedule:
        return self.columns.schedule

    @property
    def stages(self) -> int:
        """C calls where each pass has its own."""
        return len(self.schedule.passes) + (self.schedule.level is Level.ELEMENT)

    @property
    def buffers(self) -> tuple[str, ...]:
        """What every entry takes after the inputs."""
        rows = ["rows"] if self.schedule.totals else []
        return ("out", *rows, *(["stats"] if self.stages > 1 else []))

    def text(self) -> str:
        """Return the text of all entries."""
        names = [f"pass{number + 1}" for number in range(len(self.schedule.passes))]
        lines = self._entry("whole", names, local=True, is_last=True)
        if self.stages > 1:
            for number in range(1, self.stages + 1):
                lines += [
                    "",
                    *self._entry(
                        f"stage{number}",
                        names[number - 1 : number],
                        local=False,
                        is_last=number == self.stages,
                    ),
                ]
        return "\n".join(lines)

    def _entry(self, name: str, passes: list[str], *, local: bool, is_last: bool) -> list[str]:
        """One function: some passes over every tile, in parallel, and perhaps what is last."""
        signature = self.columns.signature
        where = ("row", "begin", "count", "s")
        calls = [f"{call}({signature.arguments(*where)});" for call in passes]
        if is_last and self.schedule.row_roots():
            rows = ["rows"] if self.schedule.totals else []
            calls.append(f"close({signature.arguments('out', *rows, *where)});")
        if is_last and self.schedule.level is Level.ELEMENT:
            calls.append(f"write({signature.arguments('out', *where)});")
        types = {"out": "Out *out", "rows": "double *rows", "stats": "Tile *stats"}
        total = is_last and self.schedule.level is Level.TOTAL
        return [
            f'extern "C" void {name}({signature.parameters(*(types[b] for b in self.buffers))}) {{',
            "#pragma omp parallel for schedule(static) if (omp_get_max_threads() > 1)",
            "    for (long tile = 0; tile < TILES; tile++) {",
            "        const long row = tile / ACROSS, begin = tile % ACROSS * TILE;",
            "        Tile s;" if local else "        Tile &s = stats[tile];",
            "        auto run = [&](int count) __attribute__((always_inline)) {",
            *(f"            {call}" for call in calls),
            "        };",
            "        if (INNER - begin >= TILE) run(TILE);",
            "        else run(INNER - begin);",
            "    }",
            *([f"    total({signature.arguments('out', 'rows')});"] if total else []),
            *(("#if STREAM", "    stream_end();", "#endif") if "write" in calls[-1] else ()),
            "}",
        ]


def write_columns(
    problem: Problem, graph: OperatorGraph, schedule: Schedule, summary: str
) -> str | None:
    """Write a program that works on tiles of columns.

    Args:
        problem: The problem.
        graph: Its graph.
        schedule: What to do; its innermost loop is a kept one.
        summary: One sentence for the module's docstring.

    Returns:
        The text; None where the reference's forward cannot be taken over.
    """
    names = local_names(problem, graph)
    if names is None:
        return None
    columns = Columns(schedule=schedule, signature=Signature.of(schedule, names))
    entries = _Entries(columns=columns)
    space, configuration = _parameters(entries)
    total = total_text(schedule, columns.signature, "ROWS * INNER")
    letters = columns.signature.letters() + "p" * len(entries.buffers)
    functions = {"whole": letters}
    if entries.stages > 1:
        functions |= {f"stage{number}": letters for number in range(1, entries.stages + 1)}
    program = CppProgram(
        summary=summary,
        space=space,
        configuration=configuration,
        cpp="\n\n".join(text for text in (columns.text(), total, entries.text()) if text),
        functions=functions,
        values=columns.signature.values,
        body=tuple(_body(entries)),
    )
    return write_program(problem, graph, program)


def _parameters(entries: _Entries) -> tuple[dict[str, list[int | bool]], dict[str, int | bool]]:
    schedule = entries.schedule
    space: dict[str, list[int | bool]] = {
        "TILE": [16, 32, 64, 128, 256, 1024],
        "VECTOR_BITS": [256, 512],
    }
    is_map = schedule.level is Level.ELEMENT
    chosen: dict[str, int | bool] = {"TILE": 128 if is_map else 1024, "VECTOR_BITS": 512}
    if not entries.columns.finds_indices:
        space["UNROLL"] = [1, 2, 4, 8]
        chosen["UNROLL"] = 4 if is_map else 1
    if is_map:
        space["STREAM"] = [False, True]
        chosen["STREAM"] = schedule.outgrows_caches
    if entries.stages > 1:
        space["FUSED"] = [True, False]
        chosen["FUSED"] = True
    if choice_of_maths(functions(schedule.terms, range(len(schedule.terms.terms)))):
        space["LIBRARY_MATHS"] = [False, True]
        chosen["LIBRARY_MATHS"] = False
    return space, chosen


def _body(entries: _Entries) -> list[str]:
    schedule, columns = entries.schedule, entries.columns
    lines = list(schedule.opening())
    if schedule.totals:
        count = len(schedule.totals) * schedule.rows
        lines.append(f"rows = torch.empty({count}, dtype=torch.float64)")
    if "stats" in entries.buffers:
        kinds = [str(schedule.terms[number].payload) for number in schedule.fields]
        words = len(kinds) + sum(kind.startswith("arg") for kind in kinds)
        across = f'-(-{columns.inner.size} // CONFIG["TILE"]) * CONFIG["TILE"]'
        rows = schedule.rows // columns.inner.size * words
        lines.append(f"stats = torch.empty({across} * {rows}, dtype=torch.float32)")
    pointers = columns.signature.pointers()
    pointers += [f"{name}.data_ptr()" for name in entries.buffers]
    return [*lines, *schedule.calls(pointers, entries.stages), "return out"]
