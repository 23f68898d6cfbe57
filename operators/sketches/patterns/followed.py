"""Products whose result goes through pointwise operations: bias, activation, scale, residual."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from operators.sketches.patterns.computation import Computation, lower
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.inplace import writes_in_place
from operators.sketches.patterns.operands import computing
from operators.sketches.patterns.product import Product, find_product
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = [
    "Followed",
    "find_followed",
    "find_rest",
    "pointwise_rest",
    "reads_in_place",
    "result_name",
]

_PRODUCTS = frozenset({"aten.mm.default", "aten.bmm.default", "aten.addmm.default"})
_Names = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A product and what is done to its result.

    Attributes:
        product: The product.
        rest: What is computed of its result; of `find_followed` pointwise.
        value: Name under which `rest` loads the result of the product.
    """

    product: Product
    rest: Computation
    value: str


def find_followed(
    problem: Problem, graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Followed | None:
    """Return the product with pointwise operations after it that the whole graph is, or None.

    The arguments are those of `find_rest`.
    """
    found = find_rest(problem, graph, dtypes)
    if found is None:
        return None
    count = prod(found.product.sizes[:3])
    return found if _is_pointwise(found.rest, found.value, count) else None


def find_rest(
    problem: Problem, graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Followed | None:
    """Return a graph as a product and whatever is computed of its result; None for other graphs.

    Args:
        problem: Gives the domains of the inputs.
        graph: The graph; one of its operations is a product of two of its values.
        dtypes: Those that the operands and the output may have.
    """
    found = [i for i, node in computing(graph).items() if node.op in _PRODUCTS]
    if len(found) != 1 or len(graph.outputs) != 1:
        return None
    index = found[0]
    node = graph.nodes[index]
    if node.keywords or node.outputs[0].dtype not in dtypes:
        return None
    product = find_product(problem, _alone(graph, index), dtypes)
    rest = _lowered(graph, index)
    if product is None or rest is None or rest.dtype not in dtypes:
        return None
    return Followed(product=product, rest=rest, value=result_name(graph))


def result_name(graph: OperatorGraph) -> str:
    """Return the name under which what comes after a node loads its result."""
    return f"input{len(graph.inputs)}"


def pointwise_rest(graph: OperatorGraph, index: int) -> Computation | None:
    """Return what a graph computes of a node's result, element by element.

    Args:
        graph: The graph; it has one output.
        index: Number of the node. The bias of a product counts as what comes after it.

    Returns:
        The computation, in which `result_name` is the result; None where nothing comes after it,
        or anything but pointwise operations on elements at their own places.
    """
    rest = _lowered(graph, index)
    count = prod(graph.nodes[index].outputs[0].shape)
    if rest is None or not _is_pointwise(rest, result_name(graph), count):
        return None
    return rest


def _lowered(graph: OperatorGraph, index: int) -> Computation | None:
    """What is computed of a node's result, whatever that is; None where nothing is, or more."""
    rest = _rest(graph, index)
    lowered = lower(rest, halves=True) if rest is not None else None
    return None if lowered is None or lowered.updates or lowered.counters else lowered


def _alone(graph: OperatorGraph, index: int) -> OperatorGraph:
    """The graph up to a product, which it returns; a bias is left out."""
    node = graph.nodes[index]
    inputs = node.inputs[-2:]
    plain = replace(
        node,
        op="aten.mm.default" if len(node.inputs) == 3 else node.op,
        inputs=inputs,
        arguments=tuple({"value": name} for name in inputs),
    )
    needed = _needed(graph, inputs)
    nodes = [n for i, n in enumerate(graph.nodes[:index]) if i in needed]
    names = {f"node{old}": f"node{new}" for new, old in enumerate(sorted(needed))}
    nodes = [_renamed(n, names) for n in (*nodes, plain)]
    return replace(graph, nodes=tuple(nodes), outputs=(f"node{len(nodes) - 1}",))


def _rest(graph: OperatorGraph, index: int) -> OperatorGraph | None:
    """The graph after a node, whose result is one more input; None where nothing comes after."""
    node = graph.nodes[index]
    result = result_name(graph)
    needed = sorted(_needed(graph, graph.outputs, stop=index) - {index})
    left = {*range(index + 1, len(graph.nodes))} - {*needed}
    if any(writes_in_place(graph.nodes[number]) for number in left):
        return None
    nodes: list[Node] = []
    names = {f"node{index}": result}
    if node.op == "aten.addmm.default":
        bias = node.inputs[0]
        added = ({"value": result}, {"value": bias})
        nodes.append(replace(node, op="aten.add.Tensor", inputs=(result, bias), arguments=added))
        names[f"node{index}"] = "node0"
    for old in needed:
        names[f"node{old}"] = f"node{len(nodes)}"
        nodes.append(_renamed(graph.nodes[old], names))
    if not nodes:
        return None
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    read = {name for one in nodes for name in one.inputs} | set(outputs)
    # What the node alone reads has no place among the axes of what comes after.
    kept = [
        None if isinstance(spec, TensorSpec) and f"input{number}" not in read else spec
        for number, spec in enumerate(graph.inputs)
    ]
    inputs = (*kept, node.outputs[0])
    return replace(graph, inputs=inputs, nodes=tuple(nodes), outputs=outputs)


def _needed(graph: OperatorGraph, values: Collection[str], stop: int = -1) -> set[int]:
    """Numbers of the nodes that some values stand on; what node `stop` stands on is left out."""
    found: set[int] = set()
    pending = list(values)
    while pending:
        name = pending.pop()
        if name.startswith("node"):
            number = int(name.removeprefix("node").partition(".")[0])
            if number not in found:
                found.add(number)
                pending += graph.nodes[number].inputs if number != stop else ()
    return found


def _renamed(node: Node, names: _Names) -> Node:
    return replace(
        node,
        inputs=tuple(names.get(name, name) for name in node.inputs),
        arguments=tuple(_argument(a, names) for a in node.arguments),
        keywords={key: _argument(a, names) for key, a in node.keywords.items()},
    )


def _argument(argument: Any, names: _Names) -> Any:  # noqa: ANN401 - any argument of any operation
    if isinstance(argument, list):
        return [_argument(a, names) for a in argument]
    if isinstance(argument, dict):
        return {key: names.get(name, name) for key, name in argument.items()}
    return argument


def _is_pointwise(rest: Computation, value: str, count: int) -> bool:
    """Tell whether each output depends on the result's element at its own place."""
    terms = rest.terms
    needed = terms.needed([rest.output.term])
    if prod(rest.shape) != count:
        return False
    if terms[rest.output.term].axes != frozenset(range(len(rest.sizes))):
        return False
    axes = [axis for dims in rest.output.dims for axis in dims]
    if axes != sorted(axes) or any(terms[n].op == "reduce" for n in needed):
        return False
    return reads_in_place(rest, value, count)


def reads_in_place(rest: Computation, value: str, count: int) -> bool:
    """Tell whether a computation reads a result of `count` elements, and each at its own place.

    Tensors that are read at places of an index, and plain numbers, are not covered.
    """
    needed = rest.terms.needed([rest.output.term])
    loads = [rest.terms[n].payload for n in needed if rest.terms[n].op == "load"]
    results = [load for load in loads if isinstance(load, Load) and load.value == value]
    picked = any(isinstance(load, Load) and load.picked is not None for load in loads)
    if prod(rest.sizes) != count or picked or any(rest.terms[n].op == "scalar" for n in needed):
        return False
    return bool(results) and all(_in_order(result, rest.sizes) for result in results)


def _in_order(load: Load, sizes: tuple[int, ...]) -> bool:
    steps, inner = dict(load.strides), 1
    for axis in reversed(range(len(sizes))):
        if steps.get(axis, 0) != inner and sizes[axis] != 1:
            return False
        inner *= sizes[axis]
    return True
