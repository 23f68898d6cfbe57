"""Sketch of maximum and average pooling."""

from __future__ import annotations

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.pooling import Pooling, find_pooling
from operators.sketches.patterns.windows import Windows
from operators.sketches.sketch import Sketch
from operators.sketches.triton.convolution import block_from, constants
from operators.sketches.triton.pooling_text import Reduction, windows_text
from operators.sketches.triton.precision import FLOATS
from operators.sketches.triton.program import TritonProgram, write_program
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "SLIDING_POOL",
    "is_rolling",
    "reaches_outside",
    "windows_configuration",
    "windows_space",
    "windows_values",
]

_MOST_TAPS = 256
"""Taps of the largest window: all of them are written out."""


def windows_values(windows: Windows) -> dict[str, int]:
    """Return the constants of a geometry, as the kernels name them."""
    groups = {
        "SIZE": windows.size,
        "OUT": windows.out,
        "KERNEL": windows.kernel,
        "STRIDE": windows.stride,
        "PADDING": windows.padding,
        "DILATION": windows.dilation,
    }
    return {
        f"{name}_{letter}": value
        for name, triple in groups.items()
        for letter, value in zip("DHW", triple, strict=True)
    } | {"OUTSIDE": int(reaches_outside(windows))}


def reaches_outside(windows: Windows) -> bool:
    """Tell whether windows reach beyond the input, on either side."""
    return any(
        padding or (out - 1) * stride + (kernel - 1) * dilation >= size
        for out, stride, kernel, dilation, size, padding in zip(
            windows.out,
            windows.stride,
            windows.kernel,
            windows.dilation,
            windows.size,
            windows.padding,
            strict=True,
        )
    )


def is_rolling(windows: Windows) -> bool:
    """Tell whether each next row of windows takes in one more row of the input."""
    return (
        1 < windows.kernel[1] <= 16
        and windows.stride[1] == windows.dilation[1] == 1
        and windows.kernel[0] * windows.kernel[2] <= 32
    )


def windows_space(windows: Windows) -> Space:
    """Return the parameters of `windows_text`'s kernels."""
    width = block_from(windows.out[2], 16, 1024)
    widths = tuple(b for b in (width, width // 2, width // 4) if b >= min(width, 64))
    if not is_rolling(windows):
        return {
            "BLOCK_C": (1, 2, 4),
            "BLOCK_H": (1, 2, 4, 8, 16) if windows.out[1] > 1 else (1,),
            "BLOCK_W": widths,
            "num_warps": (1, 2, 4, 8),
        }
    return {
        "ROLLING": (True, False),
        "BLOCK_C": (1, 2, 4),
        "BLOCK_H": (4, 8, 16, 32, 64),
        "BLOCK_W": widths,
        "UNROLL": (1, 2, 4),
        "num_warps": (1, 2, 4, 8),
    }


def windows_configuration(windows: Windows) -> Configuration:
    """Return the default point of `windows_space`."""
    width = block_from(windows.out[2], 16, 1024)
    lanes = max(1, 256 // width)
    if not is_rolling(windows):
        return {
            "BLOCK_C": 1,
            "BLOCK_H": min(8, 2 * lanes) if windows.out[1] > 1 else 1,
            "BLOCK_W": width,
            "num_warps": 4,
        }
    return {
        "ROLLING": True,
        "BLOCK_C": min(4, lanes),
        "BLOCK_H": 32 if windows.out[1] >= 128 else 16,
        "BLOCK_W": width,
        "UNROLL": 2,
        "num_warps": 4 if width >= 512 else 2,
    }


def _reduction(found: Pooling) -> Reduction:
    if found.maximum:
        return Reduction(kind="max")
    return Reduction(kind="sum", divided="divisor" if found.divisor else "count")


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_pooling(graph, FLOATS)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    windows = found.windows
    depth, height, width = windows.kernel
    if depth * height * width > _MOST_TAPS:
        return None
    values = windows_values(windows) | {
        "PLANES": found.channels,
        "CHANNELS": found.channels,
        "MULTIPLIER": 1,
        "DIVISOR": found.divisor,
    }
    text = windows_text(
        _reduction(found),
        windows.kernel,
        rolling=is_rolling(windows),
        outside=reaches_outside(windows),
    )
    x = names[found.x]
    return write_program(
        problem,
        graph,
        TritonProgram(
            summary="Pooling: each input row is reduced once, or each window by itself.",
            space=windows_space(windows),
            configuration=windows_configuration(windows),
            kernels="\n".join((constants(values), text)),
            values=(found.x,),
            body=(
                f"out = torch.empty({found.shape}, dtype={x}.dtype, device={x}.device)",
                f"slide({x}, None, None, out)",
                "return out",
            ),
        ),
    )


SLIDING_POOL = Sketch(name="sliding-pool", device="cuda", write=_write)
"""Maximum and average pooling of one to three dimensions."""
