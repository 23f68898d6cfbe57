"""Sketch of a matrix times a vector: as fast as the matrix can be read."""

from __future__ import annotations

from dataclasses import replace

from archives.configuration import Configuration, Space
from operators.sketches.patterns.operands import FLOATS, Operand
from operators.sketches.patterns.product import Product, find_product
from operators.sketches.sketch import Sketch
from operators.sketches.triton.matmul import literal, power_from, product_program
from operators.sketches.triton.matmul_text import MERGE_TEXT
from operators.sketches.triton.program import TritonProgram
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["MATRIX_VECTOR"]

_TEXT = '''
@triton.jit
def matrix_vector(
    a,
    b,
    out,
    M: tl.constexpr,
    K: tl.constexpr,
    A_OFFSET: tl.constexpr,
    A_BATCH: tl.constexpr,
    A_ROW: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_OFFSET: tl.constexpr,
    B_BATCH: tl.constexpr,
    B_ROW: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
    EVICT: tl.constexpr,
):
    """A few rows of the result, or of one part of the depth: one sum for each lane, then a tree."""
    part = tl.program_id(1)
    batch = tl.program_id(0) // tl.cdiv(M, BLOCK_M)
    row = tl.program_id(0) % tl.cdiv(M, BLOCK_M) * BLOCK_M
    rows = tl.arange(0, BLOCK_M)
    depth = tl.arange(0, BLOCK_K)
    wide = batch.to(tl.int64)
    a_start = a + A_OFFSET + wide * A_BATCH + row.to(tl.int64) * A_ROW
    a_tile = a_start + rows[:, None] * A_ROW + depth[None, :] * A_COLUMN
    b_tile = b + B_OFFSET + wide * B_BATCH + depth * B_ROW
    share: tl.constexpr = tl.cdiv(K, SPLIT_K * BLOCK_K) * BLOCK_K
    first = part * share
    last = tl.minimum(first + share, K)
    total = tl.zeros((BLOCK_M, BLOCK_K), tl.float32)
    for start in range(first, last, BLOCK_K):
        a_from = a_tile + tl.cast(start, tl.int64) * A_COLUMN
        b_from = b_tile + tl.cast(start, tl.int64) * B_ROW
        if M % BLOCK_M == 0 and K % BLOCK_K == 0:
            left = tl.load(a_from, eviction_policy=EVICT)
            right = tl.load(b_from)
        else:
            inside = start + depth < K
            mask = (row + rows[:, None] < M) & inside[None, :]
            left = tl.load(a_from, mask=mask, other=0.0, eviction_policy=EVICT)
            right = tl.load(b_from, mask=inside, other=0.0)
        total += left.to(tl.float32) * right.to(tl.float32)[None, :]
    if SPLIT_K > 1:
        batch += part * (tl.num_programs(0) // tl.cdiv(M, BLOCK_M))
    place = batch.to(tl.int64) * M + row + rows
    tl.store(out + place, tl.sum(total, 1).to(out.dtype.element_ty), mask=row + rows < M)


def multiply(a, b, out, _extras):
    """Multiply a matrix and a vector into a third tensor."""
    split = CONFIG["SPLIT_K"]
    rows = BATCH * triton.cdiv(SIZES["M"], CONFIG["BLOCK_M"])
    parts = out
    if split > 1:
        parts = torch.empty((split, *out.shape), dtype=torch.float32, device=out.device)
    matrix_vector[(rows, split)](a, b, parts, **SIZES, **CONFIG)
    if split > 1:
        count = out.numel()
        merge[(triton.cdiv(count, 128),)](parts, out, COUNT=count, PARTS=split, BLOCK=128)
'''
_PROGRAMS = 4096
"""Programs that keep every processor loading, as a guess for the default."""


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph, FLOATS)
    if product is None:
        return None
    if product.sizes[1] == 1:
        product = _transposed(product)
    batch, m, n, k = product.sizes
    if n != 1:
        return None
    block_k = power_from(k, 64, 1024)
    split = power_from(min(_PROGRAMS // (batch * m), k // block_k), 1, 256)
    space: Space = {
        "BLOCK_M": (1, 2, 4, 8),
        "BLOCK_K": (block_k // 2, block_k, block_k * 2),
        "SPLIT_K": (split, split * 2, split * 4),
        "EVICT": ("", "evict_first"),
        "num_warps": (4, 8),
        "num_stages": (1, 3),
    }
    if product.a.stride[2] != 1:
        space = {**space, "BLOCK_M": (32, 64, 128), "BLOCK_K": (16, 32, 64)}
    configuration: Configuration = {
        "BLOCK_M": 2 if product.a.stride[2] == 1 else 64,
        "BLOCK_K": block_k if product.a.stride[2] == 1 else 32,
        "SPLIT_K": split,
        "EVICT": "evict_first",
        "num_warps": 4,
        "num_stages": 1,
    }
    sizes = {"M": m, "K": k}
    for letter, view, axes in (("A", product.a, 3), ("B", product.b, 2)):
        sizes[f"{letter}_OFFSET"] = view.offset
        for axis, stride in list(zip(("BATCH", "ROW", "COLUMN"), view.stride, strict=True))[:axes]:
            sizes[f"{letter}_{axis}"] = stride
    program = TritonProgram(
        summary="Matrix times vector: a few rows for each program, the depth split over several.",
        space=space,
        configuration=configuration,
        kernels="\n".join((f"BATCH = {batch}", literal("SIZES", sizes), MERGE_TEXT, _TEXT)),
        values=(),
        body=(),
    )
    return product_program(problem, graph, product, program)


def _transposed(product: Product) -> Product:
    """The product of the transposed operands; equal in memory where M is 1."""

    def turned(view: Operand) -> Operand:
        (batch, rows, columns), (step, row, column) = view.shape, view.stride
        return replace(view, shape=(batch, columns, rows), stride=(step, column, row))

    return replace(product, a=turned(product.b), b=turned(product.a), triangle=(0, 0, 0))


MATRIX_VECTOR = Sketch(name="matrix-vector-triton", device="cuda", write=_write)
"""Products with a vector, or with a matrix of one column."""
