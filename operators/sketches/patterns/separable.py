"""Depthwise convolutions, alone and followed by a pointwise one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from operators.sketches.patterns.convolution import Convolution, find_convolution, read_convolution
from operators.sketches.patterns.convolution_followed import (
    FollowedConvolution,
    find_followed_convolution,
)
from operators.sketches.patterns.operands import (
    computing,
    is_result,
    unmoved_producer,
    whole_operand,
)
from problems.graph import OperatorGraph, TensorSpec

__all__ = ["Separable", "find_depthwise", "find_followed_depthwise", "find_separable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Separable:
    """A depthwise convolution and a pointwise one over its result.

    Attributes:
        depthwise: The first.
        pointwise: The second.
    """

    depthwise: Convolution
    pointwise: Convolution


def find_depthwise(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Convolution | None:
    """Return the depthwise convolution over one or two dimensions that the whole graph is."""
    found = find_convolution(graph, dtypes)
    return found if found is not None and _is_depthwise(found) else None


def find_followed_depthwise(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> FollowedConvolution | None:
    """Return a depthwise convolution with pointwise operations after it that is the whole graph."""
    found = find_followed_convolution(graph, dtypes)
    return found if found is not None and _is_depthwise(found.convolution) else None


def find_separable(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Separable | None:
    """Return the two convolutions that the whole graph is, or None."""
    nodes = list(computing(graph))
    if len(nodes) != 2 or not is_result(graph, nodes[1], dtypes):
        return None
    first, second = (read_convolution(graph, index, dtypes) for index in nodes)
    if first is None or second is None or not _is_depthwise(first) or not _is_pointwise(second):
        return None
    x = whole_operand(graph, graph.nodes[nodes[0]].inputs[0], dtypes)
    middle = graph.nodes[nodes[1]].inputs[0]
    chained = unmoved_producer(graph, middle) == nodes[0]
    chained = chained and _shape(graph, middle) == graph.nodes[nodes[0]].outputs[0].shape
    if x is None or not chained:
        return None
    return Separable(depthwise=replace(first, x=x), pointwise=second)


def _shape(graph: OperatorGraph, value: str) -> tuple[int, ...]:
    spec = graph.spec(value)
    return spec.shape if isinstance(spec, TensorSpec) else ()


def _is_depthwise(found: Convolution) -> bool:
    flat = found.windows.size[0] == found.windows.out[0] == found.windows.kernel[0] == 1
    return not found.transposed and found.groups == found.channels[0] and flat


def _is_pointwise(found: Convolution) -> bool:
    plain = found.windows.kernel == found.windows.stride == (1, 1, 1)
    same = found.windows.padding == (0, 0, 0) and found.windows.size == found.windows.out
    return plain and same and found.groups == 1 and not found.transposed
