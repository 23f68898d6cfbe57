"""Rows by programs of their own: held in registers, or swept in tiles for each pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from archives.configuration import Configuration, Space
from operators.sketches.patterns.schedule import Level
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, imports
from operators.sketches.triton.kernels import chosen, indented, kernel, launch
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.rows import Rows
from operators.sketches.triton.totals import finish_kernel, finish_launch, partials, store_partials
from operators.sketches.triton.variants import Variant, rows_of
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TRITON_HELD", "TRITON_SWEEP", "TRITON_SWEEP_ONLINE", "TRITON_SWEEP_SHIFTED"]

_MOST_HELD = 32768
_CONSTANTS = ("ROWS", "BLOCK", "STAGES", "POLICY", "CACHE")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How a program works on its tile of rows.

    Attributes:
        summary: One sentence for the module.
        tile: Statements for one tile of rows.
        space: Its parameters.
        configuration: Their defaults.
        fixed: Texts of the constants that are no parameters, by name.
        loop: Text of the options of the loop over tiles of rows.
    """

    summary: str
    tile: Sequence[str]
    space: Space
    configuration: Configuration
    fixed: dict[str, str]
    loop: str = ""


def _held(rows: Rows) -> _Plan | None:
    """Plan tiles that hold whole rows: everything is read once."""
    block = 1 << (rows.tile.column.size - 1).bit_length()
    counts = _row_counts(rows, block)
    if not counts:
        return None
    emitter = rows.emitter("POLICY")
    lines = rows.column("0")
    for group in rows.passes:
        lines += rows.takes(emitter, group) + rows.folds(emitter, group)
    if rows.schedule.level is Level.ELEMENT:
        lines += rows.output(emitter)
    warps = max(1, min(16, counts[0] * block // (2048 if rows.by_columns else 1024)))
    shared = _shared(rows)
    return _Plan(
        summary="Whole rows are held in registers, so everything is read once.",
        tile=[*lines, *rows.close(emitter), *rows.count(emitter)],
        space={
            "ROWS": tuple(sorted(counts)),
            "STAGES": (1, 3),
            **shared.space,
            "num_warps": tuple(w for w in (warps // 2, warps, warps * 2) if 1 <= w <= 32),
        },
        configuration={
            "ROWS": counts[0],
            "STAGES": 1,
            **shared.configuration,
            "num_warps": warps,
        },
        fixed={"BLOCK": str(block), "POLICY": '""', **shared.fixed},
        loop=", num_stages=STAGES",
    )


def _row_counts(rows: Rows, block: int) -> list[int]:
    """Rows of a tile, the default first: some 4096 values, 16384 along columns."""
    most = max(1, _MOST_HELD // block)
    if block > _MOST_HELD:
        return []
    if not rows.tile.row.loops:
        return [1]
    fewest, bits = (16, 15) if rows.by_columns else (1, 13)
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if fewest <= n <= most]
    counts = [n for n in counts if n * block >= 1024 or n == most]
    first = min(counts, key=lambda n: abs((n * block).bit_length() - bits), default=0)
    near = [n for n in counts if first / 4 <= n <= first * 4]
    return [first, *(n for n in near if n != first)] if counts else []


def _swept(rows: Rows) -> _Plan | None:
    """Plan one sweep over a row for each pass; short rows and single ones have other plans."""
    if not rows.tile.row.loops or (rows.tile.column.size < 2048 and not rows.by_columns):
        return None
    emitter = rows.emitter("POLICY")
    bounds = f"0, {rows.tile.column.size}, BLOCK"
    lines = []
    for group in rows.passes:
        lines += rows.by_row(emitter, [field.value for field in group])
        lines += rows.starts(group)
        lines += rows.loop(bounds, rows.updates(emitter.copy("POLICY"), group))
        lines += rows.folds(emitter, group)
    if rows.schedule.level is Level.ELEMENT:
        lines += rows.by_row(emitter, [rows.schedule.computation.output.term])
        lines += rows.loop(bounds, rows.output(emitter.copy('"evict_first"')))
    space, configuration = _swept_space(rows)
    shared = _shared(rows)
    fixed = {} if "ROWS" in space else {"ROWS": "1"}
    fixed |= {} if "POLICY" in space else {"POLICY": '""'}
    return _Plan(
        summary="One sweep over a row for each pass, rows by programs of their own.",
        tile=[*lines, *rows.close(emitter), *rows.count(emitter)],
        space={**space, **shared.space},
        configuration={**configuration, **shared.configuration},
        fixed=fixed | shared.fixed,
    )


def _swept_space(rows: Rows) -> tuple[Space, Configuration]:
    space: dict[str, tuple[int | str, ...]]
    configuration: dict[str, int | str]
    if rows.by_columns:
        space = {"ROWS": (64, 128, 256), "BLOCK": (8, 16, 32, 64), "num_warps": (4, 8, 16)}
        heavy = any(field.kind.startswith("arg") for field in rows.fields)
        configuration = {"ROWS": 64, "BLOCK": 64, "num_warps": 8}
        if heavy:
            configuration = {"ROWS": 128, "BLOCK": 32, "num_warps": 4}
    else:
        space = {"BLOCK": (2048, 4096, 8192, 16384), "num_warps": (8, 16, 32)}
        configuration = {"BLOCK": 16384, "num_warps": 16}
    if rows.reads_again:
        space["POLICY"] = ("", "evict_last")
        configuration["POLICY"] = "evict_last"
    return space | {"STAGES": (1, 2)}, configuration | {"STAGES": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """Parameters of both plans: their choices, defaults, and texts where there is no choice."""

    space: dict[str, tuple[int | str, ...]]
    configuration: dict[str, int | str]
    fixed: dict[str, str]


def _shared(rows: Rows) -> _Shared:
    waves: tuple[int, ...] = (4, 8, 16, 32) if rows.totals else (0, 4)
    space: dict[str, tuple[int | str, ...]] = {"WAVES": waves}
    configuration: dict[str, int | str] = {"WAVES": 8 if rows.totals else 0}
    if rows.schedule.level is not Level.ELEMENT:
        return _Shared(space=space, configuration=configuration, fixed={"CACHE": '""'})
    return _Shared(
        space={**space, "CACHE": ("", ".cs")},
        configuration={**configuration, "CACHE": ".cs"},
        fixed={},
    )


def _write(problem: Problem, graph: OperatorGraph, rows: Rows, how: _Plan) -> str | None:
    totals, arguments = rows.totals, rows.arguments
    constants = chosen(*_CONSTANTS, "num_warps") | how.fixed
    passed = [*arguments.passed, *(partials(totals) or ["out"])]
    count = chosen("ROWS") | how.fixed
    body = [
        *rows.schedule.opening(arguments.device),
        f"programs = {rows.tiles(count['ROWS'])}",
        'if CONFIG["WAVES"]:',
        '    programs = min(programs, processors(out.device) * CONFIG["WAVES"])',
        *(
            f"{name} = torch.empty(programs, dtype=torch.{dtype}, device=out.device)"
            for name, dtype in partials(totals).items()
        ),
        *launch("rows_kernel", "programs", passed, constants),
        *(finish_launch(rows, "programs") if totals else ()),
        "return out",
    ]
    called = rows.functions | {"processors"}
    kernels = [definitions(called), _kernel(rows, how)]
    program = TritonProgram(
        summary=how.summary,
        space=how.space,
        configuration=how.configuration,
        kernels="\n\n".join([*kernels, *([finish_kernel(rows)] if totals else [])]),
        values=arguments.values,
        imports=imports(called),
        body=tuple(body),
    )
    return write_program(problem, graph, program)


def _kernel(rows: Rows, how: _Plan) -> str:
    totals = rows.totals
    head = "for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)"
    body = [
        *rows.full(),
        *rows.starts(totals, "(ROWS, 1)"),
        f"tiles = {rows.tiles('ROWS')}",
        f"{head}{how.loop}):",
        *indented([*rows.row("tile"), *how.tile]),
        *store_partials(totals),
    ]
    pointers = rows.arguments.parameters
    pointers += [f"{name}_ptr" for name in partials(totals)] or ["out_ptr"]
    summary = "Reduce rows, ROWS at a time."
    return kernel("rows_kernel", summary, pointers, _CONSTANTS, body)


def _write_held(problem: Problem, graph: OperatorGraph) -> str | None:
    rows = rows_of(problem, graph, Variant.PLAIN)
    how = rows and _held(rows)
    return _write(problem, graph, rows, how) if rows and how else None


def _write_swept(variant: Variant, problem: Problem, graph: OperatorGraph) -> str | None:
    rows = rows_of(problem, graph, variant)
    how = rows and _swept(rows)
    return _write(problem, graph, rows, how) if rows and how else None


TRITON_HELD = Sketch(name="triton-held-rows", device="cuda", write=_write_held)
"""Rows that fit in the registers of a program, one or several at a time."""

TRITON_SWEEP = Sketch(
    name="triton-sweep", device="cuda", write=partial(_write_swept, Variant.PLAIN)
)
"""Rows of any length, in as many sweeps as their reductions depend on each other."""

TRITON_SWEEP_ONLINE = Sketch(
    name="triton-sweep-online", device="cuda", write=partial(_write_swept, Variant.ONLINE)
)
"""Softmax and its kin with one sweep for peak and sum together."""

TRITON_SWEEP_SHIFTED = Sketch(
    name="triton-sweep-shifted", device="cuda", write=partial(_write_swept, Variant.SHIFTED)
)
"""Mean and variance in one sweep, from sums of x - m and of its square."""
