"""Sketches of matrix products: blocked in caches, triangular, and matrix times vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from archives.configuration import Space
from operators.sketches.convolution import find_convolution
from operators.sketches.gemm import GEMM, GEMM_CONFIGURATION, GEMM_SPACE
from operators.sketches.lanes import LANES_TEXT, defines
from operators.sketches.matmul_text import BLOCKED_PRODUCT, VECTOR_PRODUCT
from operators.sketches.module import Program, local_names, write_module
from operators.sketches.operands import Operand, computing, is_result, operand
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import DomainKind, Problem

__all__ = ["BLOCKED_MATMUL", "MATRIX_VECTOR", "Product", "find_product"]

_FULL, _UPPER, _LOWER = 0, 1, 2
_TRIANGLES = {DomainKind.UPPER_TRIANGULAR: _UPPER, DomainKind.LOWER_TRIANGULAR: _LOWER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A batch of products of an M x K with a K x N matrix, both strided views of inputs.

    Attributes:
        a: The left operand, shape (batch, M, K).
        b: The right operand, shape (batch, K, N).
        triangle: Of `a`, `b` and the result: 0 full, 1 upper, 2 lower.
        shape: Shape of the returned tensor.
    """

    a: Operand
    b: Operand
    triangle: tuple[int, int, int]
    shape: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, M, N, K."""
        return self.a.shape[0], self.a.shape[1], self.b.shape[2], self.a.shape[2]


def find_product(problem: Problem, graph: OperatorGraph) -> Product | None:
    """Return the product that the whole graph is, or None.

    Views before and after it do not matter; a final `triu` or `tril` is part of it, and inputs
    whose domain is triangular stay so through transposition.
    """
    pointwise = _pointwise(graph)
    if pointwise is not None:
        return pointwise
    nodes = list(computing(graph).items())
    if not 1 <= len(nodes) <= 2 or not is_result(graph, nodes[-1][0]):
        return None
    index, node = nodes[0]
    if node.op not in ("aten.mm.default", "aten.bmm.default", "aten.mv.default"):
        return None
    result = _FULL
    if len(nodes) == 2:
        last = nodes[1][1]
        names = {"aten.triu.default": _UPPER, "aten.tril.default": _LOWER}
        diagonal = last.arguments[1] if len(last.arguments) > 1 else 0
        if last.inputs != (f"node{index}",) or diagonal or len(last.outputs[0].shape) != 2:
            return None
        result = names.get(last.op, -1)
    a, b = (operand(graph, value) for value in node.inputs)
    shape = getattr(graph.spec(graph.outputs[0]), "shape", ())
    if a is None or b is None or result < 0 or not prod(shape):
        return None
    if len(b.shape) == 1:
        b = replace(b, shape=(*b.shape, 1), stride=(*b.stride, 1))
    return Product(
        a=_batched(a),
        b=_batched(b),
        triangle=(_triangle(problem, a), _triangle(problem, b), result),
        shape=shape,
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
        triangle=(_FULL, _FULL, _FULL),
        shape=found.shape,
    )


def _batched(view: Operand) -> Operand:
    if len(view.shape) == 3:
        return view
    return replace(view, shape=(1, *view.shape), stride=(0, *view.stride))


def _triangle(problem: Problem, view: Operand) -> int:
    number = view.value.removeprefix("input")
    if not number.isdigit() or int(number) >= len(problem.domains) or view.offset:
        return _FULL
    triangle = _TRIANGLES.get(problem.domains[int(number)].kind, _FULL)
    if len(view.shape) != 2 or view.shape[0] != view.shape[1]:
        return _FULL
    if triangle != _FULL and view.stride == (1, view.shape[0]):
        return _UPPER + _LOWER - triangle
    return triangle if view.stride == (view.shape[0], 1) else _FULL


def _product_values(product: Product) -> dict[str, int]:
    batch, m, n, k = product.sizes
    values = {"BATCH": batch, "M": m, "N": n, "K": k}
    for letter, view in (("A", product.a), ("B", product.b)):
        values[f"{letter}_OFFSET"] = view.offset
        for axis, stride in zip(("BATCH", "ROW", "COLUMN"), view.stride, strict=True):
            values[f"{letter}_{axis}"] = stride
    triangles = zip(("A", "B", "RESULT"), product.triangle, strict=True)
    return values | {f"{name}_TRIANGLE": triangle for name, triangle in triangles}


def _write_blocked(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph)
    if product is None:
        return None
    configuration: dict[str, bool | int | float | str] = dict(GEMM_CONFIGURATION)
    # Rows are read in place where they are contiguous: packing costs more than it brings.
    configuration["PACK_A"] = product.a.stride[2] != 1
    if any(product.triangle):
        # Small tiles skip more of the zeros.
        configuration |= {"ROWS": 12, "VECTORS": 2}
    program = Program(
        summary="Matrix product, blocked for registers and two levels of cache.",
        space=GEMM_SPACE,
        configuration=configuration,
        cpp=GEMM + BLOCKED_PRODUCT,
        functions={},
        values=(),
        body=(),
    )
    return _program(problem, graph, product, program)


_VECTOR_SPACE: Space = {
    "LANES": (8, 16),
    "ROWS": (1, 2, 4, 8),
    "ACCUMULATORS": (1, 2, 4, 8),
    "CHUNK": (256, 1024, 4096, 16384),
}


def _write_vector(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph)
    if product is None:
        return None
    if product.sizes[1] == 1:
        product = _transposed(product)
    unit_rows = product.a.stride[1] == 1 or product.a.stride[2] == 1
    if product.sizes[2] != 1 or not unit_rows or product.b.stride[1] not in (0, 1):
        return None
    program = Program(
        summary="Matrix times vector: several rows share each load of the vector.",
        space=_VECTOR_SPACE,
        configuration={"LANES": 16, "ROWS": 4, "ACCUMULATORS": 2, "CHUNK": 4096},
        cpp=VECTOR_PRODUCT,
        functions={},
        values=(),
        body=(),
    )
    return _program(problem, graph, product, program)


def _transposed(product: Product) -> Product:
    """The product of the transposed operands; equal in memory where M is 1."""

    def turned(view: Operand) -> Operand:
        (batch, rows, columns), (step, row, column) = view.shape, view.stride
        return replace(view, shape=(batch, columns, rows), stride=(step, column, row))

    return replace(product, a=turned(product.b), b=turned(product.a), triangle=(0, 0, 0))


def _program(
    problem: Problem, graph: OperatorGraph, product: Product, program: Program
) -> str | None:
    """Complete a program by the product's geometry and the call."""
    names = local_names(problem, graph)
    if names is None:
        return None
    a, b = names[product.a.value], names[product.b.value]
    completed = replace(
        program,
        cpp="\n".join((defines(_product_values(product)), LANES_TEXT, program.cpp)),
        functions={"matmul": "ppp"},
        values=tuple(dict.fromkeys((product.a.value, product.b.value))),
        body=(
            f"out = torch.empty({product.shape})",
            f"KERNELS.matmul({a}.data_ptr(), {b}.data_ptr(), out.data_ptr())",
            "return out",
        ),
    )
    return write_module(problem, graph, completed)


BLOCKED_MATMUL = Sketch(name="blocked-matmul", device="cpu", write=_write_blocked)
MATRIX_VECTOR = Sketch(name="matrix-vector", device="cpu", write=_write_vector)
