"""Reads an operator graph as one computation: terms over axes, with reductions.

Covered: pointwise operations with broadcasting, also in place, views, tensors of one number,
reductions over any dimensions, softmax, the normalisations, norms, variances and losses, all
computed in float32. Whatever else a graph holds, it is not covered and `lower` returns None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from operators.sketches.patterns.axes import Placed, grouped, refined
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.nesting import nested
from operators.sketches.patterns.reading import read_node
from problems.graph import OperatorGraph, TensorSpec

__all__ = ["Computation", "lower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """What a graph computes, as terms.

    Attributes:
        sizes: Sizes of the axes, outermost first; 1 for those that nothing depends on.
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
        for number in range(len(graph.nodes)):
            read_node(builder, number, scalars)
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
    return _finished(builder, output, spec)


def _finished(builder: Builder, output: Placed, spec: TensorSpec) -> Computation:
    """The computation of an output; along axes that nothing depends on there is one step."""
    terms = builder.terms
    roots = [output.term, *(placed.term for _, placed in builder.updates)]
    used = frozenset[int]().union(*(terms[number].axes for number in terms.needed(roots)))
    first, *others = nested(terms, roots, used)
    return Computation(
        sizes=tuple(size if axis in used else 1 for axis, size in enumerate(builder.sizes)),
        terms=terms,
        output=replace(output, term=first),
        shape=spec.shape,
        dtype=spec.dtype,
        updates=tuple(
            (name, replace(placed, term=term))
            for (name, placed), term in zip(builder.updates, others, strict=True)
        ),
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
