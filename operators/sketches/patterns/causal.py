"""Causal masks: which keys a constant mask lets a query see.

A mask is followed by what it holds on the two sides of a diagonal, so it counts as causal only
where every value of it is known: made in `forward` out of constants, or a buffer whose expression
in the constructor is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from operators.sketches.patterns.bands import Band, Number, joined, triangle, turned, typed
from operators.sketches.patterns.constructed import registered
from operators.sketches.patterns.created import created
from operators.sketches.patterns.operands import operand, producer
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["Masking", "find_masking"]

_ANY_DTYPE = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_PLAIN = frozenset({"dtype", "layout", "device", "pin_memory"})
"""Keywords that say nothing about values, besides the dtype that the output has anyway."""

Masking = tuple[str, int, set[int]]
"""What is masked, how far beyond its own row a row sees, and the nodes that make the mask."""


def find_masking(problem: Problem, graph: OperatorGraph, number: int) -> Masking | None:
    """Read a node as one that masks a matrix causally.

    Args:
        problem: The problem, whose text tells what buffers hold.
        graph: Its graph.
        number: Number of the node.

    Returns:
        The name of the value that is masked; the largest difference of column and row that is
        left as it is, all beyond being minus infinity; and the numbers of the nodes that made
        the mask. None where the node does anything else, or what the mask holds is not known.
    """
    node = graph.nodes[number]
    used: set[int] = set()
    known = [_known(problem, graph, argument, used) for argument in node.arguments]
    kept, masked = _kept(_name(node), known), known.index(None) if None in known else -1
    if kept is None or node.keywords or not isinstance(node.arguments[masked], dict):
        return None
    name = node.arguments[masked]["value"]
    spec, result = graph.spec(name), node.outputs[0]
    if not isinstance(spec, TensorSpec) or spec.shape != result.shape:
        return None
    if not kept.low or kept.high or not _spans(graph, node.arguments, known, result.shape[-2:]):
        return None
    return name, kept.diagonal, used


def _kept(name: str, known: Sequence[Band | Number | None]) -> Band | None:
    """Where a node with one unknown operand leaves it as it is, and else gives minus infinity."""
    hidden = -float("inf")
    if known.count(None) != 1:
        return None
    match known:
        case [None, Band() as mask] | [Band() as mask, None] if name == "add":
            return joined("eq", [mask, 0]) if {mask.low, mask.high} == {0, hidden} else None
        case [None, Band() as mask, fill] if name == "masked_fill":
            return joined("logical_not", [mask]) if _is_all(fill, hidden) else None
        case [Band() as mask, None, fill] if name == "where":
            return joined("ne", [mask, 0]) if _is_all(fill, hidden) else None
        case [Band() as mask, fill, None] if name == "where":
            return joined("logical_not", [mask]) if _is_all(fill, hidden) else None
        case _:
            return None


def _is_all(value: Band | Number | None, number: float) -> bool:
    return value == number if not isinstance(value, Band) else {value.low, value.high} == {number}


def _spans(
    graph: OperatorGraph, arguments: Sequence[Any], known: Sequence[object], matrix: tuple[int, ...]
) -> bool:
    """Tell whether operands that differ from place to place have the size of the whole matrix."""
    for argument, band in zip(arguments, known, strict=True):
        if isinstance(band, Band) and not band.uniform:
            spec = graph.spec(argument["value"])
            if not isinstance(spec, TensorSpec) or spec.shape[-2:] != matrix:
                return False
    return True


def _name(node: Node) -> str:
    """An operation's name in torch: "eq" of "aten.eq.Scalar"."""
    return node.op.split(".")[1]


def _known(
    problem: Problem, graph: OperatorGraph, argument: object, used: set[int]
) -> Band | Number | None:
    """What an argument of a node holds: a number, a constant matrix, or None."""
    if isinstance(argument, bool | int | float):
        return argument
    if not isinstance(argument, dict):
        return None
    value = argument["value"]
    spec, index = graph.spec(value), producer(graph, value)
    if not isinstance(spec, TensorSpec):
        return None
    if index is not None:
        made = graph.nodes[index].outputs[0]
        inner: set[int] = {index}
        band = _computed(problem, graph, graph.nodes[index], inner)
        if band is None:
            return None
        used |= inner
        return _viewed(band, made, spec)
    view = operand(graph, value, _ANY_DTYPE)
    if view is None or not view.value.startswith("buffer:"):
        return None
    buffer = graph.spec(view.value)
    band = registered(problem, view.value.removeprefix("buffer:"))
    return _viewed(band, buffer, spec) if band and isinstance(buffer, TensorSpec) else None


def _computed(problem: Problem, graph: OperatorGraph, node: Node, used: set[int]) -> Band | None:
    """What a node makes out of constants; None where it is not known."""
    name = _name(node)
    if set(node.keywords) - _PLAIN or len(node.outputs) != 1:
        return None
    dtype, matrix = node.outputs[0].dtype, node.outputs[0].shape[-2:]
    number = created(node)
    if number is not None:
        return Band(low=number, high=number)
    known = [_known(problem, graph, argument, used) for argument in node.arguments]
    operands = [value for value in known if value is not None]
    if len(operands) != len(known) or not _spans(graph, node.arguments, known, matrix):
        return None
    band: Band | None
    if name in ("tril", "triu") and isinstance(operands[0], Band):
        diagonal = operands[1] if len(operands) > 1 else 0
        band = triangle(name, operands[0], diagonal) if isinstance(diagonal, int) else None
    elif name in ("_to_copy", "clone") and isinstance(operands[0], Band):
        band = operands[0]
    else:
        band = joined(name, operands)
    return typed(band, dtype) if band is not None else None


def _viewed(band: Band, made: TensorSpec, spec: TensorSpec) -> Band | None:
    """What a view of a dense matrix holds; dimensions before the last two repeat it."""
    if band.uniform:
        return band
    if len(made.shape) < 2 or len(spec.shape) < 2 or made.offset or prod(made.shape[:-2]) != 1:
        return None
    rows, columns = made.shape[-2:]
    if made.stride[-2:] == (1, rows):
        band, columns = turned(band), rows
    elif made.stride[-2:] != (columns, 1):
        return None
    outer = zip(spec.shape[:-2], spec.stride[:-2], strict=True)
    if columns == 1 or any(size != 1 and step for size, step in outer):
        return None
    below, right = divmod(spec.offset, columns)
    strides = spec.stride[-2], spec.stride[-1]
    width = {(columns, 1): spec.shape[-1], (1, columns): spec.shape[-2]}.get(strides)
    if width is None or right + width > columns:
        return None
    moved = Band(low=band.low, high=band.high, diagonal=band.diagonal + below - right)
    return moved if spec.stride[-1] == 1 else turned(moved)
