"""Sketch of matrix products with a short depth, which take as long as the result takes to write.

The whole depth is one step. A program keeps a block of rows of the left operand and goes along the
columns of the right one; what it will need next is loaded while it multiplies.
"""

from __future__ import annotations

from archives.configuration import Configuration, Space
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.product import find_product
from operators.sketches.sketch import Sketch
from operators.sketches.triton.matmul import (
    DESCRIPTOR_IMPORT,
    power_from,
    product_program,
    product_sizes,
    product_strides,
    product_views,
)
from operators.sketches.triton.packing_text import PEAKS_TEXT
from operators.sketches.triton.precision import PRECISION_TEXT, in_loop_precisions
from operators.sketches.triton.program import TritonProgram
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["WIDE_MATMUL"]

_DEEPEST = 128
"""The longest depth that is one step."""
_BIG = 1 << 26
"""Numbers of an operand that should not be read twice."""
_PROGRAMS = 1056
"""Programs that keep every processor busy, as a guess for the default."""

_TEXT = '''
@triton.jit
def wide_product(
    a,
    b,
    a_peaks,
    b_peaks,
    out,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    A_OFFSET: tl.constexpr,
    A_BATCH: tl.constexpr,
    A_ROW: tl.constexpr,
    A_COLUMN: tl.constexpr,
    B_OFFSET: tl.constexpr,
    B_BATCH: tl.constexpr,
    B_ROW: tl.constexpr,
    B_COLUMN: tl.constexpr,
    PEAKS: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DEPTH: tl.constexpr,
    SPANS: tl.constexpr,
    STORE: tl.constexpr,
    SCALES: tl.constexpr,
):
    """A block of rows times one span of the columns.

    For float16 the operands are scaled as a whole, or line by line, which needs no search before.
    """
    down: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
    across: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
    share: tl.constexpr = (across + SPANS - 1) // SPANS
    span = tl.program_id(0) % SPANS
    row = tl.program_id(0) // SPANS % down
    batch = (tl.program_id(0) // (SPANS * down)).to(tl.int64)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    depth = tl.arange(0, DEPTH)
    columns = tl.arange(0, BLOCK_N)[None, :]
    a_start = a + A_OFFSET + batch * A_BATCH + row.to(tl.int64) * BLOCK_M * A_ROW
    a_tile = a_start + tl.arange(0, BLOCK_M)[:, None] * A_ROW + depth[None, :] * A_COLUMN
    left = tl.load(a_tile, mask=(rows < M) & (depth[None, :] < K), other=0.0)
    b_tile = b + B_OFFSET + batch * B_BATCH + depth[:, None] * B_ROW + columns * B_COLUMN
    if PRECISION == "fp16x3" and SCALES == "whole":
        up_a, down_a = power_below(tl.max(tl.load(a_peaks + tl.arange(0, PEAKS))))
        up_b, down_b = power_below(tl.max(tl.load(b_peaks + tl.arange(0, PEAKS))))
        left = left * up_a
    for column in range(span * share, tl.minimum(span * share + share, across)):
        start = tl.cast(column, tl.int64) * BLOCK_N
        if N % BLOCK_N == 0 and K == DEPTH:
            right = tl.load(b_tile + start * B_COLUMN)
        else:
            inside = (depth[:, None] < K) & (start + columns < N)
            right = tl.load(b_tile + start * B_COLUMN, mask=inside, other=0.0)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        if PRECISION == "fp16x3" and SCALES == "whole":
            total = three_products(left, right * up_b, total, tl.float16) * down_a * down_b
        else:
            total = multiplied(left, right, total, PRECISION)
        if STORE == "descriptor":
            out.store([batch.to(tl.int32) * M + row * BLOCK_M, column * BLOCK_N], total)
        else:
            place = out + (batch * M + row * BLOCK_M) * N + start
            inner = tl.arange(0, BLOCK_M)[:, None] * N + columns
            value = total.to(out.dtype.element_ty)
            if M % BLOCK_M == 0 and N % BLOCK_N == 0:
                tl.store(place + inner, value)
            else:
                tl.store(place + inner, value, mask=(rows < M) & (start + columns < N))


def multiply(a, b, out, _extras):
    """Multiply two tensors into a third."""
    programs = BATCH * triton.cdiv(SIZES["M"], CONFIG["BLOCK_M"]) * CONFIG["SPANS"]
    a_peaks, b_peaks, target = a, b, out
    if CONFIG["PRECISION"] == "fp16x3" and CONFIG["SCALES"] == "whole":
        a_peaks, b_peaks = peaks_of(a, A_VIEW), peaks_of(b, B_VIEW)
    if CONFIG["STORE"] == "descriptor":
        block = [CONFIG["BLOCK_M"], CONFIG["BLOCK_N"]]
        target = TensorDescriptor.from_tensor(out.view(-1, SIZES["N"]), block)
    wide_product[(programs,)](
        a, b, a_peaks, b_peaks, target, **SIZES, PEAKS=PEAKS, DEPTH=DEPTH, **CONFIG
    )
'''


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph, FLOATS)
    if product is None or any(product.triangle):
        return None
    batch, m, n, k = product.sizes
    if not 16 <= k <= _DEEPEST or min(m, n) < 16:
        return None
    depth = power_from(k, 16, _DEEPEST)
    big = max(batch * m * k, batch * k * n) >= _BIG
    block_m, block_n = power_from(m, 16, 128), power_from(n, 16, 64 if big else 128)
    blocks, tiles = batch * -(-m // block_m), -(-n // block_n)
    spans = power_from(min(_PROGRAMS // blocks, tiles // 4), 1, 1024)
    precisions = in_loop_precisions(product.dtype, k)
    whole = n % 4 == 0 and (batch == 1 or m % 256 == 0) and product.dtype == "float32"
    space: Space = {
        "PRECISION": tuple(p for p in precisions if p not in ("ieee", "tf32x3")),
        "BLOCK_M": tuple(v for v in (block_m // 2, block_m) if v >= 16),
        "BLOCK_N": tuple(v for v in (block_n // 2, block_n, block_n * 2) if v >= 16),
        "SPANS": tuple(v for v in (spans // 2, spans, spans * 2) if v),
        "STORE": ("pointers", "descriptor") if whole else ("pointers",),
        "SCALES": ("whole", "lines"),
        "num_warps": (4, 8),
        "num_stages": (1, 2, 3),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "SPANS": spans,
        "STORE": "descriptor" if whole and depth >= 64 and not big else "pointers",
        "SCALES": "lines" if big else "whole",
        "num_warps": 8 if block_m * block_n >= 128 * 128 else 4,
        "num_stages": 3 if big else 1,
    }
    sizes = {name: value for name, value in product_sizes(product).items() if len(name) == 1}
    sizes |= product_strides(product.a, product.b)
    numbers = (f"BATCH = {batch}", f"DEPTH = {depth}", *product_views(product, sizes))
    program = TritonProgram(
        summary="Matrix product of a short depth: one step for each tile of the result.",
        space=space,
        configuration=configuration,
        kernels="\n".join((*numbers, PRECISION_TEXT, PEAKS_TEXT, _TEXT)),
        values=(),
        body=(),
        imports=(DESCRIPTOR_IMPORT,),
    )
    return product_program(problem, graph, product, program)


WIDE_MATMUL = Sketch(name="wide-matmul", device="cuda", write=_write)
"""Products over at most 128 numbers."""
