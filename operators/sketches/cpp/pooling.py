"""Sketch of maximum and average pooling: a pass along each direction of the window."""

from __future__ import annotations

from archives.configuration import Space
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.pooling_text import POOLING
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.module import local_names
from operators.sketches.patterns.pooling import Pooling, find_pooling
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["SEPARABLE_POOL"]


def _space(found: Pooling) -> Space:
    space: dict[str, tuple[bool | int, ...]] = {
        "VERTICAL_FIRST": (False, True),
        "SPREAD": (False, True),
        "LANES": (8, 16),
        "VECTORS": (1, 2, 4, 8),
        "STAGED": (False, True),
    }
    return space | {"DOUBLING": (False, True) if _doubles(found) else (False,)}


def _doubles(found: Pooling) -> bool:
    """Windows can be built from halves: overlap is harmless, or there is none."""
    taps, stride = found.windows.kernel[2], found.windows.stride[2]
    return stride == 1 and taps > 2 and (found.maximum or taps & (taps - 1) == 0)


def _configuration(found: Pooling) -> dict[str, bool | int | float | str]:
    return {
        "VERTICAL_FIRST": True,
        # Windows that do not overlap are read once either way.
        "SPREAD": found.windows.stride[2] < 8,
        "LANES": 16,
        "VECTORS": 2,
        "STAGED": False,
        "DOUBLING": False,
    }


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_pooling(graph)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    windows = found.windows
    vertical = found.channels * windows.out[0] * windows.out[1] * windows.size[2]
    horizontal = found.channels * windows.size[0] * windows.size[1] * windows.out[2]
    values = {
        "CHANNELS": found.channels,
        "MAXIMUM": int(found.maximum),
        "DIVISOR": found.divisor,
    } | windows.values()
    x = f"{names[found.x]}.data_ptr()"
    program = CppProgram(
        summary="Pooling, one pass along rows and one across them.",
        space=_space(found),
        configuration=_configuration(found),
        cpp="\n".join((defines(values), LANES_TEXT, POOLING)),
        functions={"pool": "pp", "pool_first": "pp", "pool_second": "pp"},
        values=(found.x,),
        body=(
            f"out = torch.empty({found.shape})",
            'if CONFIG["STAGED"]:',
            f'    middle = torch.empty({vertical} if CONFIG["VERTICAL_FIRST"] else {horizontal})',
            f"    KERNELS.pool_first({x}, middle.data_ptr())",
            "    KERNELS.pool_second(middle.data_ptr(), out.data_ptr())",
            "else:",
            f"    KERNELS.pool({x}, out.data_ptr())",
            "return out",
        ),
    )
    return write_program(problem, graph, program)


SEPARABLE_POOL = Sketch(name="separable-pool", device="cpu", write=_write)
