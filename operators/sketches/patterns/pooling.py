"""Maximum and average pooling of two and three dimensions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from operators.sketches.patterns.operands import (
    computing,
    is_result,
    whole_operand,
)
from operators.sketches.patterns.windows import Windows
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["Pooling", "find_pooling"]


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


def find_pooling(graph: OperatorGraph, dtypes: Collection[str] = ("float32",)) -> Pooling | None:
    """Return the pooling operation over given dtypes that the whole graph is, or None.

    Means in ceil mode whose last window leaves the padded input are left alone: torch divides
    them by another number.
    """
    nodes = list(computing(graph).items())
    if len(nodes) != 1 or not is_result(graph, nodes[0][0], dtypes):
        return None
    node = nodes[0][1]
    if node.op not in _MAXIMUM + _AVERAGE or not prod(node.outputs[0].shape):
        return None
    x = whole_operand(graph, node.inputs[0], dtypes)
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
    kernel = arguments[0]
    dilation = arguments[3] if node.op in _MAXIMUM and arguments[3] else (1,)
    return Windows.of(
        size=source.shape[-dims:],
        out=node.outputs[0].shape[-dims:],
        kernel=kernel,
        stride=arguments[1] if arguments[1] else kernel,
        padding=arguments[2] if arguments[2] else (0,),
        dilation=dilation,
    )


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
