"""Attention: two batched products with a softmax between them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from operators.sketches.patterns.operands import (
    Operand,
    computing,
    is_result,
    operand,
    producer,
    unmoved_producer,
)
from problems.graph import OperatorGraph, TensorSpec

__all__ = ["Attention", "find_attention"]


_SOFTMAX = ("aten._softmax.default", "aten._safe_softmax.default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """softmax(scale * Q K^T) V over a batch of heads.

    Attributes:
        q: Queries, shape (batch, L, D).
        k: Keys as they are multiplied, shape (batch, D, S).
        v: Values, shape (batch, S, E).
        scale: Factor of the scores.
        safe: Whether a row without any finite score gives zeros, rather than NaN.
        shape: Shape of the output.
        dtype: Of the operands and the output.
    """

    q: Operand
    k: Operand
    v: Operand
    scale: float
    safe: bool
    shape: tuple[int, ...]
    dtype: str = "float32"


def find_attention(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Attention | None:
    """Return the attention that the whole graph is, in one of some dtypes, or None.

    Two batched products with a softmax over the last dimension between them; queries, keys or
    scores may be scaled by numbers.
    """
    nodes = computing(graph)
    last = max(nodes, default=-1)
    if last < 0 or graph.nodes[last].op != "aten.bmm.default":
        return None
    if not is_result(graph, last, dtypes):
        return None
    weights, values = graph.nodes[last].inputs
    softmax = unmoved_producer(graph, weights)
    if softmax is None or not _over_last(graph, softmax):
        return None
    scale, first, scalings = _unscaled(graph, graph.nodes[softmax].inputs[0], unmoved_producer)
    scores = unmoved_producer(graph, first)
    if scores is None or graph.nodes[scores].op != "aten.bmm.default":
        return None
    query, key = (_scaled_operand(graph, value, dtypes) for value in graph.nodes[scores].inputs)
    v = operand(graph, values, dtypes)
    returned = graph.spec(graph.outputs[0])
    if query is None or key is None or v is None or not isinstance(returned, TensorSpec):
        return None
    if len(nodes) != 3 + scalings + query[2] + key[2]:
        return None
    return Attention(
        q=query[0],
        k=key[0],
        v=v,
        scale=scale * query[1] * key[1],
        safe="safe" in graph.nodes[softmax].op,
        shape=returned.shape,
        dtype=returned.dtype,
    )


def _over_last(graph: OperatorGraph, index: int) -> bool:
    node = graph.nodes[index]
    rank = len(node.outputs[0].shape)
    return node.op in _SOFTMAX and int(node.arguments[1]) % rank == rank - 1


def _unscaled(
    graph: OperatorGraph, value: str, producer_of: Callable[[OperatorGraph, str], int | None]
) -> tuple[float, str, int]:
    """Follow a multiplication or division by a number: its factor, what it scales, how many."""
    index = producer_of(graph, value)
    if index is None:
        return 1.0, value, 0
    node = graph.nodes[index]
    numbers = [a for a in node.arguments[1:] if isinstance(a, int | float)]
    if len(node.inputs) != 1 or len(numbers) != 1:
        return 1.0, value, 0
    if node.op in ("aten.mul.Scalar", "aten.mul.Tensor"):
        return float(numbers[0]), node.inputs[0], 1
    if node.op in ("aten.div.Scalar", "aten.div.Tensor"):
        return 1.0 / numbers[0], node.inputs[0], 1
    return 1.0, value, 0


def _scaled_operand(
    graph: OperatorGraph, value: str, dtypes: Collection[str]
) -> tuple[Operand, float, int] | None:
    """A view of an input that may be scaled on the way: the view, the factor, 1 if scaled."""
    factor, source, count = _unscaled(graph, value, producer)
    view = operand(graph, source, dtypes)
    spec = graph.spec(value)
    if view is None or not isinstance(spec, TensorSpec):
        return None
    index = producer(graph, value)
    if index is None:
        return view, factor, count
    # Scaling keeps the strides of a dense view, so views of its result are views of the input.
    if graph.nodes[index].outputs[0].stride != view.stride or view.offset or spec.offset:
        return None
    return (
        Operand(value=view.value, shape=spec.shape, stride=spec.stride, offset=0),
        factor,
        count,
    )
