"""Sketches of depthwise convolutions of one or two dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.separable import find_depthwise
from operators.sketches.patterns.windows import Windows
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import constants
from operators.sketches.triton.pooling_text import Reduction, windows_text
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.slides import (
    Slide,
    by_fours,
    by_windows,
    is_rolling,
    reaches_outside,
)
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "DEPTHWISE_BY_FOURS",
    "DEPTHWISE_CONVOLUTION",
    "SlideOf",
    "depthwise_program",
    "depthwise_text",
    "depthwise_values",
]

_MOST_TAPS = 128
_WEIGHTED = Reduction(kind="sum", weighted=True)
SlideOf = Callable[[Reduction, Windows], Slide | None]
"""A way to take windows, where it is one for them."""


def depthwise_values(found: Convolution) -> dict[str, int]:
    """Return the constants that go with those of the windows."""
    return {
        "PLANES": found.batch * found.channels[1],
        "CHANNELS": found.channels[1],
        "MULTIPLIER": found.channels[1] // found.channels[0],
    }


def depthwise_text(windows: Windows, warps: str = "num_warps") -> str:
    """Return the text of `slide` for a depthwise convolution.

    Args:
        windows: Its geometry.
        warps: Name of the parameter that holds the number of warps.
    """
    return windows_text(
        _WEIGHTED,
        windows.kernel,
        rolling=is_rolling(windows),
        outside=reaches_outside(windows),
        warps=warps,
    )


def _write(slide_of: SlideOf, summary: str, problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_depthwise(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    program = depthwise_program(found, slide_of, summary)
    if program is None:
        return None
    x, bias = names[found.x], names[found.bias] if found.bias else "None"
    completed = replace(
        program,
        values=tuple(v for v in (found.x, found.weight, found.bias) if v),
        body=(
            f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
            f"slide({x}, {names[found.weight]}, {bias}, out)",
            "return out",
        ),
    )
    return write_program(problem, graph, completed)


def depthwise_program(found: Convolution, slide_of: SlideOf, summary: str) -> TritonProgram | None:
    """Return the program of a depthwise convolution; its values and call are still to come.

    Args:
        found: The convolution.
        slide_of: How its windows are taken.
        summary: What that is.

    Returns:
        The program; None where windows cannot be taken so, or are too large to be written out.
    """
    windows = found.windows
    slide = slide_of(_WEIGHTED, windows)
    if slide is None or windows.kernel[1] * windows.kernel[2] > _MOST_TAPS:
        return None
    values = slide.values | depthwise_values(found)
    return TritonProgram(
        summary=f"Depthwise convolution: {summary}",
        space=slide.space,
        configuration=slide.configuration,
        kernels="\n".join((constants(values), slide.text)),
        values=(),
        body=(),
    )


DEPTHWISE_CONVOLUTION = Sketch(
    name="depthwise-convolution",
    device="cuda",
    write=partial(_write, by_windows, "each input row is loaded once for all its outputs."),
)
"""Convolutions of each channel by itself."""

DEPTHWISE_BY_FOURS = Sketch(
    name="depthwise-by-fours",
    device="cuda",
    write=partial(_write, by_fours, "four neighbouring outputs are made from vector loads."),
)
"""The same where windows overlap by all but one element."""
