"""Sketches of matrix products: blocked in caches, triangular, and matrix times vector."""

from __future__ import annotations

from dataclasses import replace

from archives.configuration import Space
from operators.sketches.cpp.gemm import GEMM, GEMM_CONFIGURATION, GEMM_SPACE
from operators.sketches.cpp.lanes import LANES_TEXT, defines
from operators.sketches.cpp.matmul_text import BLOCKED_PRODUCT, VECTOR_PRODUCT
from operators.sketches.cpp.program import CppProgram, write_program
from operators.sketches.module import local_names
from operators.sketches.patterns.operands import Operand
from operators.sketches.patterns.product import Product, find_product
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["BLOCKED_MATMUL", "MATRIX_VECTOR"]


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
    program = CppProgram(
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
    program = CppProgram(
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
    problem: Problem, graph: OperatorGraph, product: Product, program: CppProgram
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
    return write_program(problem, graph, completed)


BLOCKED_MATMUL = Sketch(name="blocked-matmul", device="cpu", write=_write_blocked)
MATRIX_VECTOR = Sketch(name="matrix-vector", device="cpu", write=_write_vector)
