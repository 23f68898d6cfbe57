"""Convolutions whose result goes through pointwise operations: bias, activation, residual."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from operators.sketches.patterns.computation import Computation
from operators.sketches.patterns.convolution import Convolution, read_convolution
from operators.sketches.patterns.followed import pointwise_rest, result_name
from operators.sketches.patterns.operands import computing, is_result, producer, whole_operand
from problems.graph import OperatorGraph

__all__ = ["FollowedConvolution", "find_followed_convolution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedConvolution:
    """A convolution, bias included, and what is done to each of its elements.

    Attributes:
        convolution: The convolution.
        rest: What is computed of its result, pointwise.
        value: Name under which `rest` loads the result of the convolution.
    """

    convolution: Convolution
    rest: Computation
    value: str


def find_followed_convolution(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> FollowedConvolution | None:
    """Return the convolution with pointwise operations after it that the whole graph is, or None.

    Args:
        graph: The graph; one of its operations is a convolution of a whole input.
        dtypes: Those that the operands and the output may have.
    """
    found = [i for i, node in computing(graph).items() if node.op == "aten.convolution.default"]
    if len(found) != 1 or len(graph.outputs) != 1:
        return None
    index, last = found[0], producer(graph, graph.outputs[0])
    if last is None or last == index or not is_result(graph, last, dtypes):
        return None
    convolution = read_convolution(graph, index, dtypes)
    x = whole_operand(graph, graph.nodes[index].inputs[0], dtypes)
    if convolution is None or x is None:
        return None
    rest = pointwise_rest(graph, index)
    if rest is None or not _has_boundaries(rest, convolution):
        return None
    return FollowedConvolution(
        convolution=replace(convolution, x=x), rest=rest, value=result_name(graph)
    )


def _has_boundaries(rest: Computation, found: Convolution) -> bool:
    """Tell whether axes lie either among images, or channels, or places of one channel."""
    inner = {1}
    below = 1
    for size in reversed(rest.sizes):
        below *= size
        inner.add(below)
    places = prod(found.windows.out)
    return {places, places * found.channels[1]} <= inner
