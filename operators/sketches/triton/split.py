"""Rows split over programs, a kernel for each pass: few long rows, and whole tensors."""

from __future__ import annotations

from functools import partial

from archives.configuration import Configuration, Space
from operators.sketches.patterns.schedule import Level
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, imports
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.kernels import chosen, indented, kernel, launch
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.rows import Rows
from operators.sketches.triton.totals import load_partials, partials
from operators.sketches.triton.variants import Variant, rows_of
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TRITON_SPLIT", "TRITON_SPLIT_ONLINE", "TRITON_SPLIT_SHIFTED"]

_CONSTANTS = ("ROWS", "BLOCK", "PARTS", "PADDED", "SPAN", "STAGES", "POLICY", "CACHE")
_BOUNDS = "part * SPAN, end, BLOCK"


def _write(variant: Variant, problem: Problem, graph: OperatorGraph) -> str | None:
    rows = rows_of(problem, graph, variant)
    if rows is None or rows.tile.column.size < 2048:
        return None
    space, configuration = _space(rows)
    called = rows.functions | {"processors", "portions"}
    program = TritonProgram(
        summary="Rows are split over programs; each pass is a kernel of its own.",
        space=space,
        configuration=configuration,
        kernels="\n\n".join([definitions(called), *_kernels(rows)]),
        values=rows.arguments.values,
        imports=imports(called),
        body=tuple(_body(rows)),
    )
    return write_program(problem, graph, program)


def _space(rows: Rows) -> tuple[Space, Configuration]:
    """Choices and defaults; what was best on an H200."""
    space: dict[str, tuple[int | str, ...]] = {"BLOCK": (1024, 2048, 4096, 8192)}
    configuration: dict[str, int | str] = {"BLOCK": 2048, "WAVES": 16, "STAGES": 2, "num_warps": 8}
    if rows.by_columns:
        space = {"ROWS": (64, 128, 256), "BLOCK": (8, 16, 32, 64)}
        configuration |= {"ROWS": 64, "BLOCK": 64, "STAGES": 1}
    elif rows.reads_again and rows.tile.row.loops:
        configuration |= {"BLOCK": 4096, "WAVES": 4, "STAGES": 1}
    elif rows.reads_again:
        configuration |= {"BLOCK": 8192, "STAGES": 1, "num_warps": 16}
    if rows.reads_again:
        space["POLICY"] = ("", "evict_last")
        configuration["POLICY"] = ""
    space |= {"WAVES": (4, 8, 16, 32), "STAGES": (1, 2, 4), "num_warps": (4, 8, 16)}
    return space, configuration


def _kernels(rows: Rows) -> list[str]:
    kernels = []
    for number, group in enumerate(rows.passes):
        emitter = rows.emitter("POLICY")
        lines = [*_joined(rows, emitter, number)]
        lines += rows.by_row(emitter, [field.value for field in group])
        lines += rows.starts(group)
        lines += rows.loop(_BOUNDS, rows.updates(emitter.copy("POLICY"), group))
        names = [variable.name for field in group for variable in field.variables]
        lines += [line for field in group for line in field.folds()]
        lines.append(f"place = {rows.tile.row_index} * PARTS + part")
        lines += [f"tl.store({n}_parts_ptr + place, {n}, mask=row_inside)" for n in names]
        pointers = [*rows.arguments.parameters, *_parts(rows, number + 1)]
        summary = f"Pass {number + 1}: reduce one part of ROWS rows."
        kernels.append(_kernel(rows, f"pass{number + 1}_kernel", summary, pointers, lines))
    return [*kernels, _last(rows)]


def _last(rows: Rows) -> str:
    """The kernel that knows all reductions of its rows."""
    emitter = rows.emitter('"evict_first"')
    pointers = [*rows.arguments.parameters, *_parts(rows, len(rows.passes)), "out_ptr"]
    lines = _joined(rows, emitter, len(rows.passes))
    if rows.totals:
        return _total(rows, emitter, lines, pointers)
    if rows.schedule.level is not Level.ELEMENT:
        head = [*rows.full(), "tile = tl.program_id(0)", *rows.row("tile")]
        body = [*head, *lines, *rows.close(emitter)]
        return kernel("last_kernel", "End ROWS rows.", pointers, _CONSTANTS, body)
    closing = rows.close(emitter.copy('""'))
    if closing:
        lines += ["if part == 0:", *indented(closing)]
    lines += rows.by_row(emitter, [rows.schedule.computation.output.term])
    lines += rows.loop(_BOUNDS, rows.output(emitter.copy('"evict_first"')))
    summary = "Write one part of ROWS rows."
    return _kernel(rows, "last_kernel", summary, pointers, lines)


def _total(rows: Rows, emitter: Emitter, lines: list[str], pointers: list[str]) -> str:
    """The kernel, run by one program, that goes over all rows and reduces what they end with."""
    lines += rows.count(emitter)
    body = [
        *rows.full(),
        *rows.starts(rows.totals, "(ROWS, 1)"),
        f"for tile in range({rows.tiles('ROWS')}):",
        *indented([*rows.row("tile"), *lines]),
        *(line for total in rows.totals for line in total.folds(0)),
    ]
    after = rows.emitter('""')
    after.known.update({n: text for total in rows.totals for n, text in total.results.items()})
    root = rows.schedule.computation.output.term
    body += after.statements([root])
    body.append(f"tl.store(out_ptr + tl.zeros((1, 1), tl.int32), {after.known[root]})")
    return kernel("last_kernel", "End all rows.", pointers, _CONSTANTS, body)


def _kernel(rows: Rows, name: str, summary: str, pointers: list[str], lines: list[str]) -> str:
    part = "(tl.program_id(0) % PARTS).to(tl.int64)" if rows.wide else "tl.program_id(0) % PARTS"
    body = [
        *rows.full("(PARTS * BLOCK)"),
        f"part = {part}",
        f"end = tl.minimum(part * SPAN + SPAN, {rows.tile.column.size})",
        "tile = tl.program_id(0) // PARTS",
        *rows.row("tile"),
        *lines,
    ]
    return kernel(name, summary, pointers, _CONSTANTS, body)


def _joined(rows: Rows, emitter: Emitter, passes: int) -> list[str]:
    """Statements that join the parts of earlier passes; their results are known then."""
    groups = rows.passes[:passes]
    if not groups:
        return []
    if rows.by_columns:
        other, inside = "tl.arange(0, PADDED)[None, :]", "row_inside & (other < PARTS)"
        lines = [f"other = {other}", f"others = {rows.tile.row_index} * PARTS + other"]
    else:
        inside = "other < PARTS"
        lines = ["other = tl.arange(0, PADDED)", "others = tile * PARTS + other"]
    for group in groups:
        lines += load_partials(group, "others", inside)
        lines += rows.folds(emitter, group, axis=1 if rows.by_columns else 0)
    return lines


def _parts(rows: Rows, passes: int) -> list[str]:
    fields = [field for group in rows.passes[:passes] for field in group]
    return [f"{name}_ptr" for name in partials(fields)]


def _body(rows: Rows) -> list[str]:
    size, count = rows.tile.column.size, rows.tile.row.size * rows.tile.outer.size
    constants = chosen(*_CONSTANTS, "num_warps")
    constants |= {"PARTS": "parts", "PADDED": "triton.next_power_of_2(parts)", "SPAN": "span"}
    constants |= {"CACHE": '""'}
    if not rows.by_columns:
        constants["ROWS"] = "1"
    if not rows.reads_again:
        constants["POLICY"] = '"evict_first"'
    lines = [
        *rows.schedule.opening(rows.arguments.device),
        f"tiles = {rows.tiles(constants['ROWS'])}",
        f'most = triton.cdiv({size}, CONFIG["BLOCK"])',
        'parts = portions(most, processors(out.device) * CONFIG["WAVES"] // tiles)',
        'span = triton.cdiv(most, parts) * CONFIG["BLOCK"]',
    ]
    tensors = partials(rows.fields)
    for name, dtype in tensors.items():
        lines.append(
            f"{name} = torch.empty({count} * parts, dtype=torch.{dtype}, device=out.device)"
        )
    for number in range(1, len(rows.passes) + 1):
        given = [name.removesuffix("_ptr") for name in _parts(rows, number)]
        passed = [*rows.arguments.passed, *given]
        lines += launch(f"pass{number}_kernel", "tiles * parts", passed, constants)
    grid = "1" if rows.totals else "tiles"
    if rows.schedule.level is Level.ELEMENT:
        grid = "tiles * parts"
    passed = [*rows.arguments.passed, *tensors, "out"]
    return [*lines, *launch("last_kernel", grid, passed, constants), "return out"]


TRITON_SPLIT = Sketch(name="triton-split", device="cuda", write=partial(_write, Variant.PLAIN))
"""Few long rows, or whole tensors, in as many passes as their reductions need."""

TRITON_SPLIT_ONLINE = Sketch(
    name="triton-split-online", device="cuda", write=partial(_write, Variant.ONLINE)
)
"""Softmax and its kin over few long rows, peak and sum in one pass."""

TRITON_SPLIT_SHIFTED = Sketch(
    name="triton-split-shifted", device="cuda", write=partial(_write, Variant.SHIFTED)
)
"""Mean and variance of few long rows in one pass."""
