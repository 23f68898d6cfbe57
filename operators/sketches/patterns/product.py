"""Matrix products: which operands are multiplied, and where they lie."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from operators.sketches.patterns.convolution import find_convolution
from operators.sketches.patterns.operands import (
    Operand,
    computing,
    is_result,
    operand,
)
from problems.graph import OperatorGraph, TensorSpec
from problems.problem import DomainKind, Problem

__all__ = ["FULL", "LOWER", "UPPER", "Product", "find_product"]

FULL, UPPER, LOWER = 0, 1, 2
"""Which elements of a matrix are not zero, in the numbers that kernels compare."""
_TRIANGLES = {DomainKind.UPPER_TRIANGULAR: UPPER, DomainKind.LOWER_TRIANGULAR: LOWER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A batch of products of an M x K with a K x N matrix, both strided views of inputs.

    Attributes:
        a: The left operand, shape (batch, M, K).
        b: The right operand, shape (batch, K, N).
        triangle: Of `a`, `b` and the result: 0 full, 1 upper, 2 lower.
        shape: Shape of the returned tensor.
        dtype: Of the operands and the result.
    """

    a: Operand
    b: Operand
    triangle: tuple[int, int, int]
    shape: tuple[int, ...]
    dtype: str = "float32"

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, M, N, K."""
        return self.a.shape[0], self.a.shape[1], self.b.shape[2], self.a.shape[2]


def find_product(
    problem: Problem, graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Product | None:
    """Return the product that the whole graph is, in one of some dtypes, or None.

    Views before and after it do not matter; a final `triu` or `tril` is part of it, and inputs
    whose domain is triangular stay so through transposition.
    """
    pointwise = _pointwise(graph)
    if pointwise is not None:
        return pointwise
    nodes = list(computing(graph).items())
    if not 1 <= len(nodes) <= 2 or not is_result(graph, nodes[-1][0], dtypes):
        return None
    index, node = nodes[0]
    if node.op not in ("aten.mm.default", "aten.bmm.default", "aten.mv.default"):
        return None
    result = FULL
    if len(nodes) == 2:
        last = nodes[1][1]
        names = {"aten.triu.default": UPPER, "aten.tril.default": LOWER}
        diagonal = last.arguments[1] if len(last.arguments) > 1 else 0
        if last.inputs != (f"node{index}",) or diagonal or len(last.outputs[0].shape) != 2:
            return None
        result = names.get(last.op, -1)
    a, b = (operand(graph, value, dtypes) for value in node.inputs)
    returned = graph.spec(graph.outputs[0])
    if a is None or b is None or result < 0 or not isinstance(returned, TensorSpec):
        return None
    shape = returned.shape
    if not prod(shape):
        return None
    if len(b.shape) == 1:
        b = replace(b, shape=(*b.shape, 1), stride=(*b.stride, 1))
    return Product(
        a=_batched(a),
        b=_batched(b),
        triangle=(_triangle(problem, a), _triangle(problem, b), result),
        shape=shape,
        dtype=returned.dtype,
    )


def _pointwise(graph: OperatorGraph) -> Product | None:
    """A convolution without windows, groups and bias: weights times the channels of an image."""
    found = find_convolution(graph)
    if found is None or found.bias or found.groups != 1 or found.transposed:
        return None
    windows = found.windows
    if not windows.kernel == windows.stride == (1, 1, 1) or windows.padding != (0, 0, 0):
        return None
    (inner, rows), columns = found.channels, prod(windows.out)
    return Product(
        a=Operand(
            value=found.weight, shape=(found.batch, rows, inner), stride=(0, inner, 1), offset=0
        ),
        b=Operand(
            value=found.x,
            shape=(found.batch, inner, columns),
            stride=(inner * columns, columns, 1),
            offset=0,
        ),
        triangle=(FULL, FULL, FULL),
        shape=found.shape,
    )


def _batched(view: Operand) -> Operand:
    if len(view.shape) == 3:
        return view
    return replace(view, shape=(1, *view.shape), stride=(0, *view.stride))


def _triangle(problem: Problem, view: Operand) -> int:
    number = view.value.removeprefix("input")
    if not number.isdigit() or int(number) >= len(problem.domains) or view.offset:
        return FULL
    triangle = _TRIANGLES.get(problem.domains[int(number)].kind, FULL)
    if len(view.shape) != 2 or view.shape[0] != view.shape[1]:
        return FULL
    if triangle != FULL and view.stride == (1, view.shape[0]):
        return UPPER + LOWER - triangle
    return triangle if view.stride == (view.shape[0], 1) else FULL
