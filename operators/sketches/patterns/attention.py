"""Attention: two batched products with a softmax between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from operators.sketches.patterns.causal import find_masking
from operators.sketches.patterns.operands import (
    FLOATS,
    Operand,
    computing,
    is_result,
    operand,
    producer,
    unmoved_producer,
)
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["Attention", "find_attention"]


_SOFTMAX = ("aten._softmax.default", "aten._safe_softmax.default")
_PRODUCT = "aten.bmm.default"
_COPY = "aten._to_copy.default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """softmax(scale * Q K^T) V over a batch of heads, all keys seen or those up to a diagonal.

    Attributes:
        q: Queries, shape (batch, L, D).
        k: Keys as they are multiplied, shape (batch, D, S).
        v: Values, shape (batch, S, E).
        scale: Factor of the scores.
        safe: Whether a row without any finite score gives zeros, rather than NaN.
        reach: Query i sees the keys up to i + reach: 0 where attention is causal, S where every
            query sees every key.
        shape: Shape of the output.
        dtype: Of the operands and the output.
    """

    q: Operand
    k: Operand
    v: Operand
    scale: float
    safe: bool
    reach: int
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def causal(self) -> bool:
        """Whether some query does not see some key."""
        return self.reach + 1 < self.v.shape[1]

    @property
    def triangular(self) -> bool:
        """Whether the weights are a square triangle: query i sees the keys up to i."""
        return self.causal and self.reach == 0 and self.q.shape[1] == self.v.shape[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """What a softmax is taken of: the node of the product, its factor, its reach if masked."""

    product: int
    scale: float
    reach: int | None


def find_attention(
    problem: Problem, graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Attention | None:
    """Return the attention that the whole graph is, in one of some dtypes, or None.

    Two batched products with a softmax over the last dimension between them. Queries, keys or
    scores may be scaled by numbers, scores masked by a constant causal mask; everything between
    the operands and the output may be float32 where those are narrower.

    Args:
        problem: The problem, whose text tells what mask a buffer is.
        graph: Its graph.
        dtypes: Names of the dtypes that count, for the operands and the output.
    """
    used: set[int] = set()
    if not graph.nodes or len(graph.outputs) != 1:
        return None
    returned, last = graph.spec(graph.outputs[0]), producer(graph, graph.outputs[0])
    if last is None or not isinstance(returned, TensorSpec) or not is_result(graph, last, dtypes):
        return None
    second = _behind_casts(graph, graph.outputs[0], used)
    if second is None or graph.nodes[second].op != _PRODUCT:
        return None
    weights, values = graph.nodes[second].inputs
    softmax = _behind_casts(graph, weights, used)
    if softmax is None or not _over_last(graph, softmax):
        return None
    scores = _scores(problem, graph, graph.nodes[softmax].inputs[0], used)
    if scores is None:
        return None
    names = (*graph.nodes[scores.product].inputs, values)
    (q, q_factor), (k, k_factor), (v, v_factor) = (
        _scaled_operand(graph, name, (returned.dtype,), used) for name in names
    )
    used |= {second, softmax, scores.product}
    if q is None or k is None or v is None or v_factor != 1.0 or not _is_all(graph, used):
        return None
    return Attention(
        q=q,
        k=k,
        v=v,
        scale=scores.scale * q_factor * k_factor,
        safe="safe" in graph.nodes[softmax].op,
        reach=v.shape[1] if scores.reach is None else scores.reach,
        shape=returned.shape,
        dtype=returned.dtype,
    )


def _is_all(graph: OperatorGraph, used: set[int]) -> bool:
    """Tell whether some nodes are all that compute, but for copies that nothing reads."""
    read = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    return all(
        index in used or (node.op == _COPY and f"node{index}" not in read)
        for index, node in computing(graph).items()
    )


def _over_last(graph: OperatorGraph, index: int) -> bool:
    node = graph.nodes[index]
    rank = len(node.outputs[0].shape)
    return node.op in _SOFTMAX and int(node.arguments[1]) % rank == rank - 1


def _behind_casts(graph: OperatorGraph, value: str, used: set[int]) -> int | None:
    """The node that computed all of a value in its order, changes of dtype left out."""
    index = unmoved_producer(graph, value)
    while index is not None and _is_cast(graph, graph.nodes[index]):
        used.add(index)
        index = unmoved_producer(graph, graph.nodes[index].inputs[0])
    return index


def _is_cast(graph: OperatorGraph, node: Node) -> bool:
    """Tell whether a node changes between float32 and another dtype, and nothing else."""
    if node.op != _COPY or set(node.keywords) != {"dtype"}:
        return False
    spec = graph.spec(node.inputs[0])
    dtypes = {spec.dtype if isinstance(spec, TensorSpec) else "", node.outputs[0].dtype}
    return "float32" in dtypes and dtypes <= {*FLOATS}


def _factor(node: Node) -> float | None:
    """The number by which a node multiplies its one tensor, or by whose inverse."""
    numbers = [a for a in node.arguments[1:] if isinstance(a, int | float)]
    if len(node.inputs) != 1 or len(node.arguments) != 2 or len(numbers) != 1 or node.keywords:
        return None
    if node.op in ("aten.mul.Scalar", "aten.mul.Tensor"):
        return float(numbers[0])
    if node.op in ("aten.div.Scalar", "aten.div.Tensor") and numbers[0]:
        return 1.0 / numbers[0]
    return None


def _scores(problem: Problem, graph: OperatorGraph, value: str, used: set[int]) -> _Scores | None:
    """Follow scores back to their product, over factors and a mask."""
    scale, reach = 1.0, None
    while (index := _behind_casts(graph, value, used)) is not None:
        node = graph.nodes[index]
        if node.op == _PRODUCT:
            return _Scores(product=index, scale=scale, reach=reach)
        factor = _factor(node)
        if factor is not None:
            scale, value = scale * factor, node.inputs[0]
            used.add(index)
            continue
        masking = find_masking(problem, graph, index)
        # What is masked may be scaled again after it, but minus infinity must stay that.
        if masking is None or reach is not None or not scale > 0:
            return None
        value, reach = masking[:2]
        used |= {index, *masking[2]}
    return None


def _scaled_operand(
    graph: OperatorGraph, value: str, dtypes: Collection[str], used: set[int]
) -> tuple[Operand | None, float]:
    """A view of an input that may be scaled or cast on the way: the view, the factor."""
    spec, source, factor, is_input = graph.spec(value), value, 1.0, True
    while (index := producer(graph, source)) is not None:
        node, now = graph.nodes[index], graph.spec(source)
        before = graph.spec(node.inputs[0]) if len(node.inputs) == 1 else None
        step = 1.0 if _is_cast(graph, node) else _factor(node)
        if step is None or not isinstance(before, TensorSpec) or not isinstance(now, TensorSpec):
            return None, factor
        # Both keep the strides of a dense view, so views of their result are views of the input.
        if before.offset or now.offset or before.stride != node.outputs[0].stride:
            return None, factor
        used.add(index)
        factor, source, is_input = factor * step, node.inputs[0], False
    view = operand(graph, source, dtypes)
    if view is None or not isinstance(spec, TensorSpec) or (view.offset and not is_input):
        return None, factor
    if is_input:
        return view, factor
    return Operand(value=view.value, shape=spec.shape, stride=spec.stride, offset=0), factor
