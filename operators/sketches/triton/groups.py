"""Rows that several programs work on in step: what does not fit in one program's registers.

Each row has a group of programs, each member a part of the row. A part is read once and its last
tile stays in registers; earlier tiles, if any, are read again while they are in the cache. After
each pass the members exchange what they found through memory, so all programs must run at the same
time: the launch is cooperative, and fails where the device cannot hold them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from archives.configuration import Configuration, Space
from operators.sketches.patterns.schedule import Level
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, imports
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.fields import Field
from operators.sketches.triton.kernels import chosen, indented, kernel, launch
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.rows import Rows
from operators.sketches.triton.variants import Variant, rows_of
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TRITON_GROUPS", "TRITON_GROUPS_ONLINE", "TRITON_GROUPS_SHIFTED"]

_CONSTANTS = ("ROWS", "BLOCK", "TILES", "MEMBERS", "PADDED", "GROUPS", "CACHE")
_FEWEST, _MOST = 1 << 13, 1 << 25
_KEPT = '"evict_last"'


def _write(variant: Variant, problem: Problem, graph: OperatorGraph) -> str | None:
    rows = rows_of(problem, graph, variant)
    if rows is None or rows.by_columns or rows.totals or rows.schedule.level is not Level.ELEMENT:
        return None
    if not _FEWEST < rows.tile.column.size <= _MOST:
        return None
    space, configuration = _space(rows)
    called = rows.functions | {"processors", "give", "take"}
    program = TritonProgram(
        summary="Groups of programs hold a row together and exchange what they reduce.",
        space=space,
        configuration=configuration,
        kernels="\n\n".join([definitions(called), _kernel(rows)]),
        values=rows.arguments.values,
        imports=imports(called),
        body=tuple(_body(rows)),
    )
    return write_program(problem, graph, program)


def _space(rows: Rows) -> tuple[Space, Configuration]:
    """Choices and defaults; what was best on an H200 for rows of 0.25 to 16 million values."""
    size = rows.tile.column.size
    tiles = [n for n in (1, 2, 4, 8, 16) if size <= n * 32768 * 264 and n * 2048 < size]
    space: Space = {
        "BLOCK": (4096, 8192, 16384, 32768),
        "TILES": tuple(tiles),
        "WAVES": (1, 2, 4, 8),
        "CACHE": ("", ".cs"),
        "num_warps": (4, 8, 16, 32),
        "maxnreg": (32, 64, 128),
    }
    configuration: dict[str, int | str] = {"BLOCK": 16384, "TILES": 1, "WAVES": 2, "maxnreg": 64}
    if size > 1 << 20:
        few = next(n for n in tiles if size <= n * 8192 * 264)
        configuration |= {"BLOCK": 8192, "TILES": max(few, 8)}
    elif 1 << 16 < size <= 1 << 18:
        configuration |= {"BLOCK": 32768, "WAVES": 1, "maxnreg": 128}
    return space, configuration | {"CACHE": ".cs", "num_warps": 16}


def _kernel(rows: Rows) -> str:
    held = rows.emitter('"evict_first"').copy('"evict_first"', "held_")
    swept = rows.emitter(_KEPT)
    lines: list[str] = []
    for group in rows.passes:
        lines += rows.by_row(swept, [field.value for field in group])
        held.known.update(swept.known)
        lines += _reduce(rows, held, swept, group)
        lines += [line for field in group for line in field.folds()]
        lines += _exchange(rows, group)
        lines += rows.folds(swept, group, axis=0)
        held.known.update(swept.known)
    lines += _outputs(rows, held, swept)
    body = [
        *rows.full("(TILES * BLOCK)"),
        "member = tl.program_id(0) % MEMBERS",
        "first = tl.program_id(0) // MEMBERS",
        f"for tile in tl.range(first, {rows.tile.row.size}, GROUPS):",
        *indented([*rows.row("tile"), *lines]),
    ]
    words = [f"{name}_ptr" for name in _word_names(rows)]
    pointers = [*rows.arguments.parameters, *words, "out_ptr"]
    summary = "Reduce rows, each by a group of programs."
    return kernel("groups_kernel", summary, pointers, _CONSTANTS, body)


def _reduce(rows: Rows, held: Emitter, swept: Emitter, group: Sequence[Field]) -> list[str]:
    """Reduce a part; what the tile held is made of is known then."""
    alone, last = held.copy(held.policy, held.prefix), held
    return [
        "if TILES == 1:",
        *indented([*_held_columns(rows), *rows.takes(alone, group)]),
        "else:",
        *indented(rows.starts(group)),
        *indented(_loop(rows, "step", rows.updates(swept.copy(_KEPT), group))),
        *indented([*_held_columns(rows), *rows.updates(last, group)]),
    ]


def _outputs(rows: Rows, held: Emitter, swept: Emitter) -> list[str]:
    """What comes after the last exchange; the tile that was read last comes first."""
    lines = rows.by_row(swept, [rows.schedule.computation.output.term])
    held.known.update(swept.known)
    lines += [*_held_columns(rows), *rows.output(held)]
    again = swept.copy('"evict_first"')
    lines += _loop(rows, "TILES - 2 - step", rows.output(again))
    closing = rows.close(swept.copy('""'))
    return lines + (["if member == 0:", *indented(closing)] if closing else [])


def _loop(rows: Rows, step: str, body: Sequence[str]) -> list[str]:
    """A loop over all tiles of a part but the last."""
    start = f"start = (member * TILES + {step}) * BLOCK"
    return [
        "for step in tl.range(0, TILES - 1):",
        *indented([start, *rows.column("start"), *body]),
    ]


def _held_columns(rows: Rows) -> list[str]:
    return ["start = (member * TILES + TILES - 1) * BLOCK", *rows.column("start")]


def _exchange(rows: Rows, group: Sequence[Field]) -> list[str]:
    """Give a member's folded lanes to its group, and take those of all members."""
    variables = [variable for field in group for variable in field.variables]
    lines = [f"give({v.name}_words_ptr + tile * MEMBERS, member, {v.name})" for v in variables]
    for v in variables:
        words = f"{v.name}_words_ptr + tile * MEMBERS, {v.first}, tl.{v.dtype}"
        lines.append(f"{v.name} = take({words}, MEMBERS, PADDED)")
    return lines


def _word_names(rows: Rows) -> list[str]:
    return [f"{v.name}_words" for field in rows.fields for v in field.variables]


def _body(rows: Rows) -> list[str]:
    constants = chosen(*_CONSTANTS, "num_warps") | {
        "maxnreg": "registers",
        "ROWS": "1",
        "MEMBERS": "members",
        "PADDED": "triton.next_power_of_2(members)",
        "GROUPS": "groups",
        "launch_cooperative_grid": "True",
    }
    count, size = rows.tile.row.size, rows.tile.column.size
    passed = [*rows.arguments.passed, *_word_names(rows), "out"]
    return [
        *rows.schedule.opening(rows.arguments.device),
        f'members = triton.cdiv({size}, CONFIG["TILES"] * CONFIG["BLOCK"])',
        "# All programs run at the same time: as many as a multiprocessor has registers for.",
        'most = 65536 // (32 * CONFIG["num_warps"])',
        'registers = min(CONFIG["maxnreg"], most)',
        'waves = min(CONFIG["WAVES"], most // registers)',
        f"groups = min({count}, processors(out.device) * waves // members)",
        "if groups == 0:",
        '    raise ValueError(f"{members} programs a row are too many: raise BLOCK or TILES")',
        *(
            f"{name} = torch.zeros({count} * members, dtype=torch.int64, device=out.device)"
            for name in _word_names(rows)
        ),
        *launch("groups_kernel", "groups * members", passed, constants),
        "return out",
    ]


TRITON_GROUPS = Sketch(name="triton-groups", device="cuda", write=partial(_write, Variant.PLAIN))
"""Long rows, with an exchange for each pass."""

TRITON_GROUPS_ONLINE = Sketch(
    name="triton-groups-online", device="cuda", write=partial(_write, Variant.ONLINE)
)
"""Softmax and its kin over long rows, with one exchange."""

TRITON_GROUPS_SHIFTED = Sketch(
    name="triton-groups-shifted", device="cuda", write=partial(_write, Variant.SHIFTED)
)
"""Mean and variance of long rows, with one exchange."""
