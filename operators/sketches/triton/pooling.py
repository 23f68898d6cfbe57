"""Sketches of maximum and average pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from operators.sketches.module import local_names
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.pooling import Pooling, find_pooling
from operators.sketches.patterns.windows import Windows
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import constants
from operators.sketches.triton.pooling_text import Reduction
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.slides import Slide, by_fours, by_windows
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["POOL_BY_FOURS", "SLIDING_POOL"]

_MOST_TAPS = 256
"""Taps of the largest window: all of them are written out."""


def _reduction(found: Pooling) -> Reduction:
    if found.maximum:
        return Reduction(kind="max")
    return Reduction(kind="sum", divided="divisor" if found.divisor else "count")


def _write(
    slide_of: Callable[[Reduction, Windows], Slide | None],
    summary: str,
    problem: Problem,
    graph: OperatorGraph,
) -> str | None:
    found = find_pooling(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    depth, height, width = found.windows.kernel
    slide = slide_of(_reduction(found), found.windows)
    if slide is None or depth * height * width > _MOST_TAPS:
        return None
    values = slide.values | {
        "PLANES": found.channels,
        "CHANNELS": found.channels,
        "MULTIPLIER": 1,
        "DIVISOR": found.divisor,
    }
    x = names[found.x]
    return write_program(
        problem,
        graph,
        TritonProgram(
            summary=f"Pooling: {summary}",
            space=slide.space,
            configuration=slide.configuration,
            kernels="\n".join((constants(values), slide.text)),
            values=(found.x,),
            body=(
                f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
                f"slide({x}, None, None, out)",
                "return out",
            ),
        ),
    )


SLIDING_POOL = Sketch(
    name="sliding-pool",
    device="cuda",
    write=partial(_write, by_windows, "each input row is reduced once, or each window by itself."),
)
"""Maximum and average pooling of one to three dimensions."""

POOL_BY_FOURS = Sketch(
    name="pool-by-fours",
    device="cuda",
    write=partial(_write, by_fours, "four neighbouring windows are reduced from vector loads."),
)
"""The same where windows overlap by all but one element."""
