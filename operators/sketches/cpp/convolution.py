"""Sketch of convolutions: direct, blocked in registers over output channels and space."""

from __future__ import annotations

from math import prod

from archives.configuration import Space
from operators.sketches.cpp.convolution_text import CONVOLUTION
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.module import local_names
from operators.sketches.patterns.convolution import Convolution, find_convolution
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["DIRECT_CONVOLUTION"]

_OC_BLOCKS = (1, 2, 4, 6, 8, 12, 14)


def _values(found: Convolution) -> dict[str, int]:
    return {
        "BATCH": found.batch,
        "IC": found.channels[0],
        "OC": found.channels[1],
        "GROUPS": found.groups,
        "TRANSPOSED": int(found.transposed),
    } | found.windows.values()


def _space(found: Convolution) -> Space:
    group = found.channels[1] // found.groups
    return {
        "OC_BLOCK": tuple(b for b in _OC_BLOCKS if b <= max(group, 1)),
        "VECTORS": (1, 2, 3, 4, 6),
        "LANES": (8, 16),
        "FLAT": (0, 1, 2) if found.windows.out[0] > 1 else (0, 1),
        "SPACE_OUTER": (False, True),
        "COPY_INPUT": (False, True),
        "STAGED": (False, True),
    }


def _configuration(found: Convolution) -> dict[str, bool | int | float | str]:
    group = found.channels[1] // found.groups
    block = max(b for b in _OC_BLOCKS if b <= min(8, group))
    return {
        "OC_BLOCK": block,
        "VECTORS": 3 if block == 8 else 4,
        "LANES": 16,
        "FLAT": _flat(found),
        # Images beyond the second cache are passed once, with all weights at hand.
        "SPACE_OUTER": found.channels[0] * prod(found.windows.size) > 2**18,
        # Channels a power of two apart fall into the same few sets of a cache.
        "COPY_INPUT": prod(found.windows.size) % 512 == 0,
        "STAGED": False,
    }


def _flat(found: Convolution) -> int:
    """Rows, planes or the volume as segments: whichever needs least work in whole vectors."""
    windows = found.windows
    phases = windows.stride if found.transposed else (1, 1, 1)
    steps = (1, 1, 1) if found.transposed else windows.stride
    grid = [-(-out // phase) for out, phase in zip(windows.out, phases, strict=True)]
    reach = [
        (kernel - 1) * dilation // (phase * step)
        for kernel, dilation, phase, step in zip(
            windows.kernel, windows.dilation, phases, steps, strict=True
        )
    ]
    height, width = grid[1] + reach[1], grid[2] + reach[2]
    lengths = (
        (grid[0] * grid[1], grid[2]),
        (grid[0], (grid[1] - 1) * width + grid[2]),
        (1, ((grid[0] - 1) * height + grid[1] - 1) * width + grid[2]),
    )
    costs = [segments * _vector_cost(-(-length // 16)) for segments, length in lengths]
    return costs.index(min(costs))


def _vector_cost(vectors: int) -> float:
    """Work of a segment; a tile of one vector keeps the arithmetic units half busy only."""
    return vectors + (0.6 if vectors % 3 == 1 else 0.0)


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_convolution(graph)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    x, weight = f"{names[found.x]}.data_ptr()", f"{names[found.weight]}.data_ptr()"
    bias = f"{names[found.bias]}.data_ptr()" if found.bias else "None"
    program = CppProgram(
        summary="Direct convolution: a tile of channels and positions is summed in registers.",
        space=_space(found),
        configuration=_configuration(found),
        cpp="\n".join((defines(_values(found)), LANES_TEXT, CONVOLUTION)),
        functions={"convolution_size": "p", "convolution_prepare": "ppp", "convolution": "ppppp"},
        values=tuple(v for v in (found.x, found.weight, found.bias) if v),
        body=(
            "size = ctypes.c_longlong()",
            "KERNELS.convolution_size(ctypes.addressof(size))",
            "work = torch.empty(size.value)",
            f"out = torch.empty({found.shape})",
            'if CONFIG["STAGED"]:',
            f"    KERNELS.convolution_prepare({x}, {weight}, work.data_ptr())",
            f"KERNELS.convolution({x}, {weight}, {bias}, work.data_ptr(), out.data_ptr())",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


DIRECT_CONVOLUTION = Sketch(name="direct-convolution", device="cpu", write=_write)
