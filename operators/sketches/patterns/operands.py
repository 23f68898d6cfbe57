"""Which nodes of a graph compute, and which values are views of its inputs.

Views (transposes, reshapes, expansions) move no data: a kernel reads through them. Here they are
followed by storage, so a pattern sees only the operations that compute and, for each operand, the
input it lies in with its strides.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = [
    "FLOATS",
    "Operand",
    "computing",
    "is_result",
    "operand",
    "producer",
    "unmoved_producer",
    "whole_operand",
]

FLOATS = ("float32", "float16", "bfloat16")
"""Dtypes of operands that tensor cores take, or take in parts."""

_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_unsafe_view.default",
        "alias.default",
        "detach.default",
        "expand.default",
        "permute.default",
        "select.int",
        "slice.Tensor",
        "squeeze.default",
        "squeeze.dim",
        "squeeze.dims",
        "t.default",
        "transpose.int",
        "unsqueeze.default",
        "view.default",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A strided view of one of the graph's inputs, parameters or buffers.

    Attributes:
        value: Name of the value it lies in, such as "input0".
        shape: Its sizes.
        stride: Its strides in elements.
        offset: Its first element, in elements from the value's first.
    """

    value: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int


def computing(graph: OperatorGraph) -> dict[int, Node]:
    """Return the nodes that are no views, by their number in the graph."""
    return {i: node for i, node in enumerate(graph.nodes) if node.op not in _VIEWS}


def operand(
    graph: OperatorGraph, value: str, dtypes: Collection[str] = ("float32",)
) -> Operand | None:
    """Return a value as a view of a contiguous input of given dtypes, or None.

    Args:
        graph: The graph.
        value: Any value of it; views are followed to where their storage comes from.
        dtypes: Names of the dtypes that count.
    """
    spec = graph.spec(value)
    if not isinstance(spec, TensorSpec) or spec.dtype not in dtypes:
        return None
    bases = {f"input{index}": base for index, base in enumerate(graph.inputs)}
    bases |= {f"param:{name}": base for name, base in graph.parameters.items()}
    bases |= {f"buffer:{name}": base for name, base in graph.buffers.items()}
    for name, base in bases.items():
        if isinstance(base, TensorSpec) and base.storage == spec.storage:
            whole = base.offset == 0 and base.stride == _contiguous(base.shape)
            if not whole:
                return None
            return Operand(value=name, shape=spec.shape, stride=spec.stride, offset=spec.offset)
    return None


def whole_operand(
    graph: OperatorGraph, value: str, dtypes: Collection[str] = ("float32",)
) -> str | None:
    """Return the input, parameter or buffer of which a value is all, in the same order.

    Args:
        graph: The graph.
        value: Any value of it, such as a reshaped input.
        dtypes: Names of the dtypes that count.
    """
    view = operand(graph, value, dtypes)
    if view is None or view.offset:
        return None
    base = graph.spec(view.value)
    same = isinstance(base, TensorSpec) and base.numel == prod(view.shape)
    return view.value if same and _in_order(view.shape, view.stride) else None


def producer(graph: OperatorGraph, value: str) -> int | None:
    """Return the number of the node that computed a value, views left out; None for inputs."""
    spec = graph.spec(value)
    for index, node in computing(graph).items():
        written = [output.storage for output in node.outputs]
        if isinstance(spec, TensorSpec) and spec.storage in written:
            return index
    return None


def unmoved_producer(graph: OperatorGraph, value: str) -> int | None:
    """Return the node that computed a value, where it is all of the result in its order.

    Dimensions before the last two may be grouped otherwise; None where anything was moved, taken
    out or repeated, and for inputs.
    """
    index, spec = producer(graph, value), graph.spec(value)
    if index is None or not isinstance(spec, TensorSpec):
        return None
    made = graph.nodes[index].outputs[0]
    is_whole = spec.offset == made.offset == 0 and prod(spec.shape) == prod(made.shape)
    is_dense = _in_order(spec.shape, spec.stride) and _in_order(made.shape, made.stride)
    return index if is_whole and is_dense and spec.shape[-2:] == made.shape[-2:] else None


def is_result(graph: OperatorGraph, index: int, dtypes: Collection[str] = ("float32",)) -> bool:
    """Tell whether the graph returns one value: all that a node wrote, in its order.

    Args:
        graph: The graph.
        index: Number of the node; its first output counts.
        dtypes: Names of the dtypes that count.
    """
    if len(graph.outputs) != 1:
        return False
    written = graph.nodes[index].outputs[0]
    result = graph.spec(graph.outputs[0])
    return (
        isinstance(result, TensorSpec)
        and result.storage == written.storage
        and result.dtype == written.dtype
        and result.dtype in dtypes
        and prod(result.shape) == prod(written.shape)
        and result.offset == written.offset == 0
        and _in_order(result.shape, result.stride)
        and _in_order(written.shape, written.stride)
    )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def _in_order(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Contiguous; strides of dimensions of size 1 do not matter."""
    return all(
        size == 1 or have == want
        for size, have, want in zip(shape, stride, _contiguous(shape), strict=True)
    )
