"""Scans: running sums and products along a dimension."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from operators.sketches.patterns.operands import (
    computing,
    is_result,
    operand,
    producer,
    whole_operand,
)
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["Scan", "find_scan"]


_NEUTRAL = {
    False: ("aten.zeros_like.default", "aten.zeros.default"),
    True: ("aten.ones_like.default", "aten.ones.default"),
}
"""What makes the element in front of an exclusive scan: 0 for sums, 1 for products."""


_SCANS = {"aten.cumsum.default": False, "aten.cumprod.default": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A running sum or product of a dense tensor along one dimension.

    Attributes:
        x: Value name of the input.
        mask: Value name of a boolean or float factor of the same shape, or None.
        product: Whether it multiplies; otherwise it adds.
        reverse: Whether it runs from the end.
        exclusive: Whether an element's own value is left out.
        shape: Shape of input and output.
        dim: The dimension, from 0.
    """

    x: str
    mask: str | None = None
    product: bool
    reverse: bool = False
    exclusive: bool = False
    shape: tuple[int, ...]
    dim: int


def find_scan(graph: OperatorGraph, dtypes: Collection[str] = ("float32",)) -> Scan | None:
    """Return the scan that the whole graph is, or None.

    Known forms: the scan itself; flipped before and after; of an input times a mask; of either
    moved by one, a zero in front of sums, a one in front of products.

    Args:
        graph: The graph.
        dtypes: Names of the dtypes that are covered; a mask may be boolean as well.
    """
    nodes = computing(graph)
    scans = [(index, node) for index, node in nodes.items() if node.op in _SCANS]
    if len(scans) != 1 or not is_result(graph, max(nodes), dtypes):
        return None
    index, node = scans[0]
    shape = node.outputs[0].shape
    returned = graph.spec(graph.outputs[0])
    dim = int(node.arguments[1])
    if not isinstance(returned, TensorSpec) or returned.shape != shape or not prod(shape):
        return None
    scan = Scan(x="", product=_SCANS[node.op], shape=shape, dim=dim % len(shape))
    flipped = max(nodes) != index
    if flipped and not _flips(nodes[max(nodes)], f"node{index}", scan.dim):
        return None
    found, used = _source(graph, scan, node.inputs[0], dtypes)
    if found is None or found.reverse != flipped or used + 1 + flipped != len(nodes):
        return None
    return found


def _source(
    graph: OperatorGraph, scan: Scan, value: str, dtypes: Collection[str]
) -> tuple[Scan | None, int]:
    """What is scanned, and how many computing nodes prepare it."""
    index = producer(graph, value)
    if index is None:
        return _whole(graph, scan, value, dtypes), 0
    node = graph.nodes[index]
    if node.op == "aten.cat.default":
        return _exclusive(graph, scan, value, node, dtypes)
    if value != f"node{index}":
        return None, 0
    if node.op == "aten.flip.default" and not scan.reverse and _flips(node, None, scan.dim):
        found, used = _source(graph, replace(scan, reverse=True), node.inputs[0], dtypes)
        return found, used + 1
    if node.op == "aten.mul.Tensor":
        return _masked(graph, scan, node, dtypes), 1
    return None, 0


def _whole(graph: OperatorGraph, scan: Scan, value: str, dtypes: Collection[str]) -> Scan | None:
    x, spec = whole_operand(graph, value, dtypes), graph.spec(value)
    if x is None or not isinstance(spec, TensorSpec) or spec.shape != scan.shape:
        return None
    return replace(scan, x=x)


def _flips(node: Node, source: str | None, dim: int) -> bool:
    if node.op != "aten.flip.default" or source not in (None, node.inputs[0]):
        return False
    rank = len(node.outputs[0].shape)
    return [int(d) % rank for d in node.arguments[1]] == [dim]


def _masked(graph: OperatorGraph, scan: Scan, node: Node, dtypes: Collection[str]) -> Scan | None:
    found = _whole(graph, scan, node.inputs[0], dtypes)
    mask = graph.spec(node.inputs[1]) if len(node.inputs) == 2 else None
    if found is None or not isinstance(mask, TensorSpec) or mask.shape != scan.shape:
        return None
    name = node.inputs[1]
    if name.startswith("node") or mask.dtype not in ("bool", *dtypes):
        return None
    return replace(found, mask=name)


def _exclusive(
    graph: OperatorGraph, scan: Scan, value: str, node: Node, dtypes: Collection[str]
) -> tuple[Scan | None, int]:
    """A neutral element, then an input, masked or not, without its last; nodes as `_source`.

    The last is left out of the input or the product, or of what is joined.
    """
    dim = int(node.arguments[1]) if len(node.arguments) > 1 else 0
    if len(node.inputs) != 2 or dim % len(scan.shape) != scan.dim or scan.reverse:
        return None, 0
    first = producer(graph, node.inputs[0])
    if first is None or graph.nodes[first].op not in _NEUTRAL[scan.product]:
        return None, 0
    joined, scanned = node.outputs[0], graph.spec(value)
    if not isinstance(scanned, TensorSpec):
        return None, 0
    if _is_cut(scanned, joined, scan.dim):
        found, used = _source(graph, scan, node.inputs[1], dtypes)
        if found is not None and (found.exclusive or found.reverse):
            return None, 0
    elif _is_same(scanned, joined):
        found, used = _shortened(graph, scan, node.inputs[1], dtypes)
    else:
        return None, 0
    return (replace(found, exclusive=True) if found is not None else None), used + 2


def _shortened(
    graph: OperatorGraph, scan: Scan, value: str, dtypes: Collection[str]
) -> tuple[Scan | None, int]:
    """What a value is that lacks the last elements, and how many computing nodes prepare it."""
    index, spec = producer(graph, value), graph.spec(value)
    if index is None:
        return _cut(graph, scan, (value,), dtypes), 0
    factors, made = graph.nodes[index], graph.nodes[index].outputs[0]
    product = factors.op == "aten.mul.Tensor" and len(factors.inputs) == 2
    if not product or not isinstance(spec, TensorSpec):
        return None, 0
    if _is_cut(spec, made, scan.dim):
        return _masked(graph, scan, factors, dtypes), 1
    return (_cut(graph, scan, factors.inputs, dtypes) if _is_same(spec, made) else None), 1


def _cut(
    graph: OperatorGraph, scan: Scan, values: tuple[str, ...], dtypes: Collection[str]
) -> Scan | None:
    """A scan of an input, or an input and a mask, that lack their last elements."""
    names: list[str] = []
    for value, known in zip(values, (dtypes, ("bool", *dtypes)), strict=False):  # a mask or none
        view, spec = operand(graph, value, known), graph.spec(value)
        base = graph.spec(view.value) if view is not None else None
        if view is None or not isinstance(base, TensorSpec) or not isinstance(spec, TensorSpec):
            return None
        if base.shape != scan.shape or not _is_cut(spec, base, scan.dim):
            return None
        names.append(view.value)
    return replace(scan, x=names[0], mask=names[1] if names[1:] else None)


def _is_cut(part: TensorSpec, whole: TensorSpec, dim: int) -> bool:
    """Tell whether a view is all of a tensor but the last along a dimension."""
    shape = tuple(size - (at == dim) for at, size in enumerate(whole.shape))
    return (shape, whole.stride, whole.offset) == (part.shape, part.stride, part.offset)


def _is_same(part: TensorSpec, whole: TensorSpec) -> bool:
    return (part.shape, part.stride, part.offset) == (whole.shape, whole.stride, whole.offset)
