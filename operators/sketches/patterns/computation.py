"""Reads an operator graph as one computation: terms over axes, with reductions.

Covered: pointwise operations with broadcasting, views, reductions over any dimensions, softmax,
the normalisations, norms and losses, all computed in float32. Whatever else a graph holds, it is
not covered and `lower` returns None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operators.sketches.patterns.axes import Placed, grouped, refined
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.composites import COMPOSITES
from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.pointwise import POINTWISE
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["Computation", "lower"]

_OF_TRUTHS = {"add": "logical_or", "mul": "logical_and"}
"""What arithmetic is where all operands are truth values."""

_OTHER_ROUNDING = frozenset({"rounding_mode", "decimals"})
"""Keywords that make another function of an operation."""

_VIEWS = frozenset(
    {"_unsafe_view", "alias", "clone", "contiguous", "detach", "flatten", "reshape", "squeeze"}
    | {"unsqueeze", "view"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """What a graph computes, as terms.

    Attributes:
        sizes: Sizes of the axes, outermost first.
        terms: All terms.
        output: The returned value: its term and the axes of each dimension.
        shape: Shape of the output.
        dtype: "float32", "int64" for an index, or "float16" or "bfloat16".
        updates: Buffers written besides: name and value of each.
        counters: Integer buffers that grow by one in each call.
    """

    sizes: tuple[int, ...]
    terms: Terms
    output: Placed
    shape: tuple[int, ...]
    dtype: str
    updates: tuple[tuple[str, Placed], ...] = ()
    counters: tuple[str, ...] = ()


def lower(
    graph: OperatorGraph, *, shifted: bool = False, halves: bool = False
) -> Computation | None:
    """Read a graph as one computation.

    Args:
        graph: The graph.
        shifted: Variances by one pass over x - m, m an element of the row, not by two passes.
        halves: Also take tensors in float16 and bfloat16; between them, values are in float32.

    Returns:
        The computation; None where the graph is not covered.
    """
    shapes = _largest(graph)
    sizes = refined(shapes)
    largest = sizes and grouped(range(len(sizes)), sizes, shapes[0])
    if not sizes or not largest or len(graph.outputs) != 1:
        return None
    builder = Builder(graph=graph, sizes=sizes, largest=largest, shifted=shifted, halves=halves)
    try:
        scalars = _scalars(graph)
        for index, node in enumerate(graph.nodes):
            _read(builder, f"node{index}", node, scalars)
        output = builder.value(graph.outputs[0])
    except NotCoveredError:
        return None
    spec = graph.spec(graph.outputs[0])
    assert isinstance(spec, TensorSpec)
    if (spec.dtype == "int64") != _is_index(builder.terms, output.term):
        return None
    covered = math.prod(sizes[axis] for axes in output.dims for axis in axes)
    if output.term < 0 or covered != spec.numel or not _is_output(builder, spec.dtype):
        return None
    return Computation(
        sizes=sizes,
        terms=builder.terms,
        output=output,
        shape=spec.shape,
        dtype=spec.dtype,
        updates=tuple(builder.updates),
        counters=tuple(builder.counters),
    )


def _is_output(builder: Builder, dtype: str) -> bool:
    return dtype != "bool" and builder.takes(dtype)


def _is_index(terms: Terms, number: int) -> bool:
    return number >= 0 and str(terms[number].payload).startswith("arg")


def _largest(graph: OperatorGraph) -> list[tuple[int, ...]]:
    """The shapes of the largest values of a graph, in the order in which they appear."""
    specs = [spec for spec in graph.inputs if isinstance(spec, TensorSpec)]
    shapes = [spec.shape for spec in specs]
    for node in graph.nodes:
        shapes += [spec.shape for spec in node.outputs]
        if node.op.startswith("aten.native_group_norm"):
            rows, channels, inner, groups = node.arguments[3:7]
            shapes.append((rows, groups, channels // groups, inner))
    most = max((math.prod(shape) for shape in shapes), default=0)
    return [shape for shape in shapes if math.prod(shape) == most and most > 0]


def _scalars(graph: OperatorGraph) -> Mapping[float, str]:
    """Inputs that are plain numbers, by their value in the trace.

    A trace shows such a number as an argument: it is recognised where it occurs exactly once.

    Raises:
        NotCoveredError: A number occurs elsewhere too, or not at all.
    """
    found: dict[float, str] = {}
    shown = [a for node in graph.nodes for a in (*node.arguments, *node.keywords.values())]
    for index, value in enumerate(graph.inputs):
        if isinstance(value, TensorSpec) or value is None:
            continue
        same = [a for a in shown if isinstance(a, int | float) and a == value]
        if len(same) != 1 or isinstance(value, bool):
            raise NotCoveredError(f"input{index}")
        found[float(value)] = f"input{index}"
    return found


def _read(builder: Builder, name: str, node: Node, scalars: Mapping[float, str]) -> None:
    """Read one node; its value goes into the builder.

    Raises:
        NotCoveredError: It is not covered.
    """
    operation = node.op.split(".")[1]
    if operation == "empty":
        return
    if operation == "add_":
        builder.counters.append(_counter(builder, node))
        return
    dtype = node.outputs[0].dtype
    computed = dtype != "int64" and builder.takes(dtype)
    if not computed and operation not in ("argmax", "argmin", *_VIEWS):
        raise NotCoveredError(f"{node.op} in {dtype}")
    arguments = [_argument(builder, a, scalars) for a in node.arguments]
    keywords = {k: _argument(builder, a, scalars) for k, a in node.keywords.items()}
    if operation in _VIEWS:
        value = builder.viewed(arguments[0], node.outputs[0].shape)
    elif operation == "expand":
        value = arguments[0]
    elif operation in POINTWISE:
        if node.outputs[0].dtype == "bool":
            operation = _OF_TRUTHS.get(operation, operation)
        value = _pointwise(builder, operation, arguments, keywords)
    elif operation in COMPOSITES and not keywords:
        value = COMPOSITES[operation](builder, *arguments)
    else:
        raise NotCoveredError(node.op)
    builder.values[name] = value


def _counter(builder: Builder, node: Node) -> str:
    """The integer buffer that a node increments by one."""
    target, *rest = node.arguments
    name = target["value"] if isinstance(target, dict) else ""
    spec = builder.graph.spec(name) if name.startswith("buffer:") else None
    if not isinstance(spec, TensorSpec) or spec.dtype != "int64" or rest != [1]:
        raise NotCoveredError(node.op)
    return name


def _argument(
    builder: Builder,
    argument: Any,  # noqa: ANN401 - any argument of any operation
    scalars: Mapping[float, str],
) -> Any:  # noqa: ANN401 - a `Placed` for a tensor, anything else as it is
    if isinstance(argument, dict):
        return builder.value(argument["value"])
    if isinstance(argument, int | float) and scalars.get(float(argument)):
        return Placed(term=builder.terms.scalar(scalars[float(argument)]))
    return argument


def _pointwise(
    builder: Builder, operation: str, arguments: list[Any], keywords: Mapping[str, Any]
) -> Placed:
    """Apply a rule to operands that are broadcast against each other."""
    if _OTHER_ROUNDING & keywords.keys():
        raise NotCoveredError(operation)
    slots = [*enumerate(arguments), *keywords.items()]
    tensors = {
        key: a if isinstance(a, Placed) else builder.constant(float(a))
        for key, a in slots
        if isinstance(a, Placed | int | float)
    }
    placed, dims = builder.broadcast(list(tensors.values()))
    numbers = dict(zip(tensors, (p.term for p in placed), strict=True))
    values = [numbers.get(key, a) for key, a in enumerate(arguments)]
    named = {key: numbers.get(key, a) for key, a in keywords.items()}
    term = POINTWISE[operation](builder.terms, *values, **named)
    if term is None:
        raise NotCoveredError(operation)
    return Placed(term=term, dims=dims)
