"""Sketch of maximum and average pooling: a pass along each direction of the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from archives.configuration import Space
from operators.sketches.lanes import LANES_TEXT, defines
from operators.sketches.module import Program, local_names, write_module
from operators.sketches.operands import computing, is_result, whole_operand
from operators.sketches.pooling_text import POOLING
from operators.sketches.sketch import Sketch
from operators.sketches.windows import Windows
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["SEPARABLE_POOL", "Pooling", "find_pooling"]

_MAXIMUM = ("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
_AVERAGE = ("aten.avg_pool2d.default", "aten.avg_pool3d.default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """One pooling operation over dense channels.

    Attributes:
        x: Value name of the input.
        maximum: Whether it takes maxima; otherwise means.
        divisor: What a mean's sum is divided by; 0: by the number of elements inside.
        channels: Batch times channels.
        windows: Geometry of the pooled dimensions.
        shape: Shape of the output.
    """

    x: str
    maximum: bool
    divisor: int
    channels: int
    windows: Windows
    shape: tuple[int, ...]


def find_pooling(graph: OperatorGraph) -> Pooling | None:
    """Return the pooling operation that the whole graph is, or None.

    Means in ceil mode whose last window leaves the padded input are left alone: torch divides
    them by another number.
    """
    nodes = list(computing(graph).items())
    if len(nodes) != 1 or not is_result(graph, nodes[0][0]):
        return None
    node = nodes[0][1]
    if node.op not in _MAXIMUM + _AVERAGE or not prod(node.outputs[0].shape):
        return None
    x = whole_operand(graph, node.inputs[0])
    source, returned = graph.spec(node.inputs[0]), graph.spec(graph.outputs[0])
    if x is None or not isinstance(source, TensorSpec) or not isinstance(returned, TensorSpec):
        return None
    windows = _windows(node, source)
    if node.op in _AVERAGE and not _fits(windows):
        return None
    return Pooling(
        x=x,
        maximum=node.op in _MAXIMUM,
        divisor=_divisor(node, windows),
        channels=prod(source.shape[: -_dims(node)]),
        windows=windows,
        shape=returned.shape,
    )


def _dims(node: Node) -> int:
    return 3 if "3d" in node.op else 2


def _windows(node: Node, source: TensorSpec) -> Windows:
    dims = _dims(node)
    arguments = [*node.arguments[1:], *([None] * 7)]
    kernel = _ints(arguments[0])
    dilation = _ints(arguments[3]) if node.op in _MAXIMUM and arguments[3] else (1,)
    return Windows.of(
        size=source.shape[-dims:],
        out=node.outputs[0].shape[-dims:],
        kernel=kernel,
        stride=_ints(arguments[1]) if arguments[1] else kernel,
        padding=_ints(arguments[2]) if arguments[2] else (0,),
        dilation=dilation,
    )


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _fits(windows: Windows) -> bool:
    """Every window lies inside the padded input."""
    return all(
        (out - 1) * stride + kernel <= size + 2 * padding
        for out, stride, kernel, size, padding in zip(
            windows.out,
            windows.stride,
            windows.kernel,
            windows.size,
            windows.padding,
            strict=True,
        )
    )


def _divisor(node: Node, windows: Windows) -> int:
    # Arguments of a mean: input, kernel, stride, padding, ceil mode, count padding, divisor.
    if node.op in _MAXIMUM:
        return 1
    given = node.arguments[6] if len(node.arguments) > 6 else node.keywords.get("divisor_override")
    counted = node.arguments[5] if len(node.arguments) > 5 else True
    if given:
        return int(given)
    return prod(windows.kernel) if counted else 0


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
    program = Program(
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
    return write_module(problem, graph, program)


SEPARABLE_POOL = Sketch(name="separable-pool", device="cpu", write=_write)
