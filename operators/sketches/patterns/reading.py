"""Reads one node of a graph: its values become terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from operators.sketches.patterns.axes import Placed
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.composites import COMPOSITES
from operators.sketches.patterns.created import created, rounded
from operators.sketches.patterns.inplace import operation_of
from operators.sketches.patterns.losses import LOSSES
from operators.sketches.patterns.pointwise import POINTWISE
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["read_node"]

_OF_TRUTHS = {"add": "logical_or", "mul": "logical_and"}
"""What arithmetic is where all operands are truth values."""

_OTHER_ROUNDING = frozenset({"rounding_mode", "decimals"})
"""Keywords that make another function of an operation."""

_NAMED = frozenset({"correction", "keepdim"})
"""Keywords that rules take."""

_COUNTED = 1 << 24
"""Numbers up to here have a float32 each."""

_VIEWS = frozenset(
    {"_unsafe_view", "alias", "clone", "contiguous", "detach", "flatten", "reshape", "squeeze"}
    | {"unsqueeze", "view"}
)


def read_node(builder: Builder, number: int, scalars: Mapping[float, str]) -> None:
    """Read one node; its values go into the builder.

    Raises:
        NotCoveredError: It is not covered.
    """
    node = builder.graph.nodes[number]
    operation = operation_of(builder.graph, number)
    if operation == "empty":
        return
    if operation == "add_":
        builder.counters.append(_counter(builder, node))
        return
    made = created(node)
    if made is not None:
        builder.values[f"node{number}"] = _filled(builder, node, made, scalars)
        return
    dtype = node.outputs[0].dtype
    computed = dtype != "int64" and builder.takes(dtype)
    if not computed and not _is_integral(builder.graph, node, operation):
        raise NotCoveredError(f"{node.op} in {dtype}")
    arguments = [_argument(builder, a, scalars) for a in node.arguments]
    keywords = {k: _argument(builder, a, scalars) for k, a in node.keywords.items()}
    value = _value(builder, node, operation, arguments, keywords)
    for output, placed in enumerate(value if isinstance(value, tuple) else (value,)):
        builder.values[f"node{number}.{output}" if output else f"node{number}"] = placed


def _value(
    builder: Builder,
    node: Node,
    operation: str,
    arguments: list[Any],
    keywords: Mapping[str, Any],
) -> Placed | tuple[Placed, ...]:
    """What a node computes, of its operands."""
    shape = node.outputs[0].shape
    if operation in _VIEWS:
        return builder.viewed(arguments[0], shape)
    if operation == "repeat" and arguments[0].term >= 0:
        raise NotCoveredError("a repetition of what has its place")
    if operation in ("expand", "repeat"):
        x: Placed = arguments[0]
        missing = len(shape) - len(x.dims) if x.term >= 0 else 0
        return replace(x, dims=((),) * missing + x.dims)
    if operation == "_to_copy":
        return _converted(builder, node, arguments[0])
    if operation in POINTWISE:
        if node.outputs[0].dtype == "bool":
            operation = _OF_TRUTHS.get(operation, operation)
        if operation.startswith("clamp"):
            arguments = [_bound(builder, a, node.outputs[0].dtype) for a in arguments]
        return _pointwise(builder, operation, arguments, keywords)
    if operation not in COMPOSITES or keywords.keys() - _NAMED:
        raise NotCoveredError(node.op)
    _check_operands(builder, node, operation, arguments)
    if operation == "sum" and _dtype(builder.graph, node.inputs[0]) == "bool":
        arguments[0] = builder.call("number", arguments[0])
    return COMPOSITES[operation](builder, *arguments, **keywords)


def _bound(builder: Builder, bound: Any, dtype: str) -> Any:  # noqa: ANN401 - any argument
    """A number to clamp by, which torch rounds to the dtype that it clamps in."""
    if isinstance(bound, Placed) and bound.term >= 0:
        value = builder.terms[bound.term].payload
        if builder.terms[bound.term].op == "constant" and isinstance(value, float):
            return replace(bound, term=builder.terms.constant(rounded(value, dtype)))
    return rounded(bound, dtype) if isinstance(bound, int | float) else bound


def _filled(builder: Builder, node: Node, made: float, scalars: Mapping[float, str]) -> Placed:
    """A tensor of one number."""
    dtype = node.outputs[0].dtype
    exact = dtype != "int64" or abs(made) <= _COUNTED
    numbers = [float(a) for a in node.arguments if isinstance(a, int | float)]
    if not (builder.takes(dtype) and exact) or any(a in scalars for a in numbers):
        raise NotCoveredError(f"{node.op} in {dtype}")
    return replace(builder.constant(float(made)), dims=((),) * len(node.outputs[0].shape))


def _is_integral(graph: OperatorGraph, node: Node, operation: str) -> bool:
    """Tell whether an operation may have a result in int64."""
    if operation == "sum":
        spec = graph.spec(node.inputs[0])
        counts = isinstance(spec, TensorSpec) and spec.dtype == "bool" and spec.numel <= _COUNTED
        return counts and node.outputs[0].dtype == "int64"
    return operation in ("argmax", "argmin", *_VIEWS)


def _dtype(graph: OperatorGraph, value: str) -> str:
    spec = graph.spec(value)
    return spec.dtype if isinstance(spec, TensorSpec) else ""


def _converted(builder: Builder, node: Node, x: Placed) -> Placed:
    """A value in another dtype. To halves it is rounded only where all of the problem is."""
    graph = builder.graph
    old, new = _dtype(graph, node.inputs[0]), node.outputs[0].dtype
    others = {key: a for key, a in node.keywords.items() if key != "dtype"}
    if others and others != {"layout": "strided", "device": "meta"}:
        raise NotCoveredError(f"{node.op} to {others}")
    if new == "bool" or "float" not in old:
        if x.term >= 0 and builder.terms[x.term].op == "constant":
            raise NotCoveredError("a number in another dtype")
        return x if old == new else builder.call("truth" if new == "bool" else "number", x)
    inputs = {spec.dtype for spec in graph.inputs if isinstance(spec, TensorSpec)}
    if new not in ("float32", *inputs):
        raise NotCoveredError(f"rounding to {new}")
    return x


def _check_operands(builder: Builder, node: Node, operation: str, arguments: list[Any]) -> None:
    """Insist on operands that are not repeated where a rule goes over their elements.

    Raises:
        NotCoveredError: A dimension of the first operand is not all there.
    """
    if operation == "native_batch_norm" and node.arguments[5]:
        statistics = [a for a in node.arguments[3:5] if isinstance(a, dict)]
        if any(not a["value"].startswith("buffer:") for a in statistics):
            raise NotCoveredError("statistics that are no buffers")
    named = [isinstance(a, dict) for a in node.arguments]
    operands = [x for x, is_value in zip(arguments, named, strict=True) if is_value]
    specs = [builder.graph.spec(value) for value in node.inputs]
    same = [x for x, spec in zip(operands, specs, strict=True) if _shape(spec) == _shape(specs[0])]
    if operation not in LOSSES:
        del same[1:]
    whole = [
        x.shape if x.term < 0 else tuple(builder.count(x, [d]) for d in range(len(x.dims)))
        for x in same
    ]
    shape = _shape(specs[0])
    for dim, size in enumerate(reversed(shape), 1):
        if all(len(sizes) < dim or sizes[-dim] != size for sizes in whole):
            raise NotCoveredError(f"{node.op} of a repeated value")


def _shape(spec: object) -> tuple[int, ...]:
    return spec.shape if isinstance(spec, TensorSpec) else ()


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
