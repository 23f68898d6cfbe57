"""Elementwise chains: one pass over memory, in tiles of consecutive elements."""

from __future__ import annotations

import math

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.computation import lower
from operators.sketches.patterns.schedule import Level, Schedule, plan
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, functions, imports
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.kernels import Arguments, chosen, indented, kernel, launch
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.tiles import Side, Tile, is_wide
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TRITON_MAP"]

_SPACE: Space = {
    "BLOCK": (512, 1024, 2048, 4096),
    "WAVES": (0, 8, 16),
    "CACHE": ("", ".cs"),
    "num_warps": (2, 4, 8),
}
_DEFAULT: Configuration = {"BLOCK": 1024, "WAVES": 0, "CACHE": "", "num_warps": 4}


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    computation = lower(graph, halves=True)
    schedule = computation and plan(computation)
    names = local_names(problem, graph)
    if not schedule or schedule.passes or schedule.level is not Level.ELEMENT or names is None:
        return None
    arguments = Arguments.of(schedule, names)
    if arguments is None or schedule.computation.updates:
        return None
    size = math.prod(schedule.computation.sizes)
    called = {"fetch", "put", "processors"}
    called |= functions(schedule.terms, schedule.terms.needed([schedule.computation.output.term]))
    constants = chosen("BLOCK", "CACHE")
    program = TritonProgram(
        summary="Tiles of consecutive elements, each read and written once.",
        space=_SPACE,
        configuration=_DEFAULT,
        kernels=definitions(called) + "\n\n" + _kernel(schedule, arguments, list(constants)),
        values=arguments.values,
        imports=imports(called),
        body=(
            *schedule.opening(arguments.device),
            f'programs = triton.cdiv({size}, CONFIG["BLOCK"])',
            'if CONFIG["WAVES"]:',
            '    programs = min(programs, processors(out.device) * CONFIG["WAVES"])',
            *launch(
                "map_kernel",
                "programs",
                [*arguments.passed, "out"],
                constants | chosen("num_warps"),
            ),
            "return out",
        ),
    )
    return write_program(problem, graph, program)


def _kernel(schedule: Schedule, arguments: Arguments, constants: list[str]) -> str:
    every = Side(name="index", loops=schedule.loops)
    none = Side(name="", loops=())
    tile = Tile(outer=none, row=none, column=every, flat=True)
    emitter = Emitter(terms=schedule.terms, names=arguments.names, place=tile.place)
    root = schedule.computation.output.term
    place = tile.place(every.axes, schedule.stores)
    number = "tile.to(tl.int64)" if is_wide(schedule, every) else "tile"
    body = [
        f"FULL: tl.constexpr = {every.size} % BLOCK == 0",
        f"tiles = ({every.size} + BLOCK - 1) // BLOCK",
        "for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0)):",
        *indented(
            [
                f"index = {number} * BLOCK + tl.arange(0, BLOCK)",
                f"inside = index < {every.size}",
                *emitter.statements([root]),
                f"put(out_ptr + {place.offset}, {emitter.known[root]}, inside, FULL, CACHE)",
            ]
        ),
    ]
    summary = "Write the output in tiles of BLOCK elements."
    return kernel("map_kernel", summary, [*arguments.parameters, "out_ptr"], constants, body)


TRITON_MAP = Sketch(name="triton-map", device="cuda", write=_write)
"""Elementwise chains with broadcasting."""
