"""Reductions over rows: each program leaves a part of its own, and one program joins the parts."""

from __future__ import annotations

from collections.abc import Sequence

from operators.sketches.triton.fields import Field
from operators.sketches.triton.kernels import Arguments, kernel, launch
from operators.sketches.triton.rows import Rows

__all__ = ["finish_kernel", "finish_launch", "load_partials", "partials", "store_partials"]


def partials(fields: Sequence[Field]) -> dict[str, str]:
    """Return the tensors in which programs leave their parts: dtypes by name."""
    return {f"{v.name}_parts": v.dtype for field in fields for v in field.variables}


def store_partials(totals: Sequence[Field]) -> list[str]:
    """Return the last statements of a kernel that counted rows of tiles into totals."""
    if not totals:
        return []
    lines = [line for total in totals for line in total.folds(0)]
    lines.append("part = tl.program_id(0) + tl.zeros((1, 1), tl.int32)")
    names = [variable.name for total in totals for variable in total.variables]
    return [*lines, *(f"tl.store({name}_parts_ptr + part, {name})" for name in names)]


def load_partials(fields: Sequence[Field], place: str, inside: str) -> list[str]:
    """Return statements that read parts as lanes.

    Args:
        fields: What the parts are of.
        place: Text of where they lie in each tensor, such as "part".
        inside: Text of the mask.
    """
    return [
        f"{v.name} = tl.load({v.name}_parts_ptr + {place}, mask={inside}, other={v.first})"
        for field in fields
        for v in field.variables
    ]


def finish_kernel(rows: Rows) -> str:
    """Return the kernel that joins the parts of the totals and writes the output."""
    emitter = rows.emitter('""')
    root = rows.schedule.computation.output.term
    arguments = _arguments(rows)
    body = [
        "part = tl.arange(0, PADDED)",
        *load_partials(rows.totals, "part", "part < PARTS"),
        *rows.folds(emitter, rows.totals, axis=0),
        *emitter.statements([root]),
        f"tl.store(out_ptr + tl.zeros((1,), tl.int32), {emitter.known[root]})",
    ]
    pointers = [*arguments.parameters, *(f"{name}_ptr" for name in partials(rows.totals))]
    summary = "Join the parts of all programs."
    return kernel("finish_kernel", summary, [*pointers, "out_ptr"], ["PARTS", "PADDED"], body)


def finish_launch(rows: Rows, parts: str) -> list[str]:
    """Return the lines that launch it, for a number of parts."""
    constants = {"PARTS": parts, "PADDED": f"triton.next_power_of_2({parts})", "num_warps": "8"}
    passed = [*_arguments(rows).passed, *partials(rows.totals), "out"]
    return launch("finish_kernel", "1", passed, constants)


def _arguments(rows: Rows) -> Arguments:
    root = rows.schedule.computation.output.term
    return rows.arguments.needed(rows.schedule.terms, [root], rows.schedule.totals)
