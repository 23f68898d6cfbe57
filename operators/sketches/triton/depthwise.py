"""Sketch of depthwise convolutions of one or two dimensions."""

from __future__ import annotations

from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution
from operators.sketches.patterns.separable import find_depthwise
from operators.sketches.patterns.windows import Windows
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import constants
from operators.sketches.triton.pooling import (
    is_rolling,
    reaches_outside,
    windows_configuration,
    windows_space,
    windows_values,
)
from operators.sketches.triton.pooling_text import Reduction, windows_text
from operators.sketches.triton.precision import FLOATS
from operators.sketches.triton.program import TritonProgram, write_program
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["DEPTHWISE_CONVOLUTION", "depthwise_text", "depthwise_values"]

_MOST_TAPS = 128


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
        Reduction(kind="sum", weighted=True),
        windows.kernel,
        rolling=is_rolling(windows),
        outside=reaches_outside(windows),
        warps=warps,
    )


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_depthwise(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    windows = found.windows
    if windows.kernel[1] * windows.kernel[2] > _MOST_TAPS:
        return None
    values = windows_values(windows) | depthwise_values(found)
    x, bias = names[found.x], names[found.bias] if found.bias else "None"
    return write_program(
        problem,
        graph,
        TritonProgram(
            summary="Depthwise convolution: each input row is loaded once for all its outputs.",
            space=windows_space(windows),
            configuration=windows_configuration(windows),
            kernels="\n".join((constants(values), depthwise_text(windows))),
            values=tuple(v for v in (found.x, found.weight, found.bias) if v),
            body=(
                f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
                f"slide({x}, {names[found.weight]}, {bias}, out)",
                "return out",
            ),
        ),
    )


DEPTHWISE_CONVOLUTION = Sketch(name="depthwise-convolution", device="cuda", write=_write)
"""Convolutions of each channel by itself."""
