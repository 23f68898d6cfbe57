"""Sketches of matrix products: operands read in place, or split into planes beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.operands import FLOATS, Operand
from operators.sketches.patterns.product import Product, find_product
from operators.sketches.sketch import Sketch
from operators.sketches.triton.matmul_stream import PROCESSORS, stream_choices
from operators.sketches.triton.matmul_stream_text import PIECES_TEXT, STREAM_TEXT
from operators.sketches.triton.matmul_text import (
    MERGE_TEXT,
    MULTIPLY_TEXT,
    PLACE_TEXT,
    STORE_TEXT,
    TILED_TEXT,
)
from operators.sketches.triton.packed_stream_text import PACKED_STREAM_TEXT
from operators.sketches.triton.packed_text import (
    MULTIPLY_PACKED_TEXT,
    OPERANDS_TEXT,
    PACKED_TEXT,
)
from operators.sketches.triton.packing_text import PACKING_TEXT, PEAKS_TEXT
from operators.sketches.triton.precision import (
    PRECISION_TEXT,
    chains,
    in_loop_precisions,
    packed_precisions,
)
from operators.sketches.triton.program import TritonProgram, write_program
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = [
    "DESCRIPTOR_IMPORT",
    "PACKED_MATMUL",
    "TILED_MATMUL",
    "literal",
    "operand_view",
    "packed_program",
    "peak_count",
    "power_from",
    "product_program",
    "product_sizes",
    "product_strides",
    "product_views",
    "tiled_program",
    "triton_program",
]

_ENOUGH_TILES = 256
_LEAST_STEPS = 8
_SHORT = 512
"""Depths up to which tiles should rather be many than large."""
_PEAK_SHARE = 4096
DESCRIPTOR_IMPORT = "from triton.tools.tensor_descriptor import TensorDescriptor"


def literal(name: str, values: Mapping[str, int]) -> str:
    """Return the text of a dict of numbers."""
    inside = ", ".join(f'"{key}": {value}' for key, value in values.items())
    return f"{name} = {{{inside}}}"


def power_from(size: int, least: int, most: int) -> int:
    """Return the smallest power of two that holds a size, between two of them."""
    return min(max(1 << max(size - 1, 0).bit_length(), least), most)


def peak_count(*sizes: int) -> int:
    """Return over how many programs the search for an operand's largest number is spread."""
    return power_from(max(sizes) // _PEAK_SHARE, 1, 1024)


def operand_view(view: Operand, triangle: int, *, right: bool) -> dict[str, int]:
    """Return the sizes and strides that `PACKING_TEXT` takes; of a right operand transposed."""
    batch, rows, depth = view.shape
    step, row, along = view.stride
    if right:
        rows, depth, row, along = depth, rows, along, row
        triangle = (0, 2, 1)[triangle]
    return {
        "BATCHES": batch if step else 1,
        "ROWS": rows,
        "DEPTH": depth,
        "OFFSET": view.offset,
        "BATCH_STRIDE": step,
        "ROW_STRIDE": row,
        "DEPTH_STRIDE": along,
        "TRIANGLE": triangle,
    }


def product_sizes(product: Product) -> dict[str, int]:
    """Return M, N, K and the triangles, as kernels take them."""
    _, m, n, k = product.sizes
    names = ("A_TRIANGLE", "B_TRIANGLE", "OUT_TRIANGLE")
    return {"M": m, "N": n, "K": k, **dict(zip(names, product.triangle, strict=True))}


def product_strides(a: Operand, b: Operand) -> dict[str, int]:
    """Return the strides of both operands, as kernels take them."""
    values: dict[str, int] = {}
    for letter, view in (("A", a), ("B", b)):
        steps = dict(zip(("BATCH", "ROW", "COLUMN"), view.stride, strict=True))
        values |= {f"{letter}_OFFSET": view.offset}
        values |= {f"{letter}_{axis}": stride for axis, stride in steps.items()}
    return values


def product_views(product: Product, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the text of the numbers that kernels over views of the operands take."""
    batch, m, n, k = product.sizes
    return (
        f"PEAKS = {peak_count(batch * m * k, batch * k * n)}",
        literal("SIZES", sizes),
        literal("A_VIEW", operand_view(product.a, product.triangle[0], right=False)),
        literal("B_VIEW", operand_view(product.b, product.triangle[1], right=True)),
    )


def _groups(product: Product) -> tuple[int, ...]:
    """Orders of the tiles, the default first; long sums of triangles first."""
    a, b, out = product.triangle
    if out == 1 or (not a and b == 1):
        return (0, -1, 8)
    return (-1, 0, 8) if out == 2 or a == 2 else (8,)


def _write_tiled(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph, FLOATS)
    if product is None:
        return None
    return product_program(problem, graph, product, tiled_program(product, STORE_TEXT))


def tiled_program(product: Product, store: str, *, splits: bool = True) -> TritonProgram:
    """Return the program of a product by tiles.

    Args:
        product: The product.
        store: Text of `store_tile`.
        splits: Whether the depth may be split over programs.
    """
    batch, m, n, k = product.sizes
    precisions = in_loop_precisions(product.dtype, k)
    block_m, block_n = power_from(m, 16, 128), power_from(n, 16, 128)
    block_k = power_from(k, 16, 64)
    tiles = batch * -(-m // block_m) * -(-n // block_n)
    split = power_from(min(_ENOUGH_TILES // tiles, k // (_LEAST_STEPS * block_k)), 1, 128)
    if any(product.triangle) or not splits:
        split = 1
    groups, streams = _groups(product), stream_choices(product, tiles, block_k)
    chain = (1 << 30,) if precisions == ("native",) else (0, 512)
    space: Space = {
        "PRECISION": precisions,
        "BLOCK_M": tuple(v for v in (block_m // 2, block_m) if v >= 16),
        "BLOCK_N": _near(block_n, 16, 256),
        "BLOCK_K": tuple(v for v in (block_k // 2, block_k) if v >= 16),
        "GROUP": groups,
        "SPLIT_K": (1,) if split == 1 else (split // 2, split, split * 2),
        **streams,
        "CHAIN": chain,
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP": groups[0],
        "SPLIT_K": split,
        **dict.fromkeys(streams, 0),
        "CHAIN": chain[0],
        "num_warps": 8 if block_m * block_n >= 128 * 128 else 4,
        "num_stages": 3,
    }
    sizes = product_sizes(product) | product_strides(product.a, product.b)
    kernels = (PRECISION_TEXT, PEAKS_TEXT, PLACE_TEXT, store, MERGE_TEXT, TILED_TEXT)
    views = product_views(product, sizes)
    multiply = (PIECES_TEXT, STREAM_TEXT) if streams else (MULTIPLY_TEXT,)
    text = "\n".join((f"BATCH = {batch}", *views, *kernels, *multiply))
    summary = "Matrix product by tiles, operands read in place and split in the loop."
    return triton_program(summary, space, configuration, text)


def _near(value: int, least: int, most: int) -> tuple[int, ...]:
    """Powers of two from half to twice a value."""
    return tuple(v for v in (value // 2, value, value * 2) if least <= v <= most)


def _write_packed(problem: Problem, graph: OperatorGraph) -> str | None:
    product = find_product(problem, graph)
    if product is None:
        return None
    if min(product.sizes[1:]) < 16:
        return None
    return product_program(
        problem, graph, product, packed_program(product, STORE_TEXT, finished=True)
    )


def packed_program(product: Product, store: str, *, finished: bool = False) -> TritonProgram:
    """Return the program of a product of planes.

    Args:
        product: The product.
        store: Text of `store_tile`.
        finished: Whether sums may be added to what it has written.
    """
    batch, m, n, k = product.sizes
    precisions = packed_precisions(k)
    lengths = chains(precisions[0], k)
    in_memory = finished and not product.triangle[2]
    sums = ("registers", "memory") if in_memory else ("registers",)
    # Two totals, that of a chain and that of all, fit into registers for narrower tiles only.
    widest = 256 if lengths[0] >= k > _SHORT and not any(product.triangle) else 128
    block_m, block_n = power_from(m, 16, 128), power_from(n, 16, widest)
    block_k = power_from(k, 32, 64)
    tiles = batch * -(-m // block_m) * -(-n // block_n)
    groups, streams = _groups(product), stream_choices(product, tiles, block_k)
    space: Space = {
        "PRECISION": precisions,
        "BLOCK_M": (block_m, block_m * 2),
        "BLOCK_N": (block_n // 2, block_n) if block_n == 256 else _near(block_n, 16, 256),
        "BLOCK_K": (block_k,),
        "GROUP": groups,
        "CHAIN": lengths,
        "SUMS": sums,
        "PROGRAMS": (0, PROCESSORS),
        **streams,
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP": groups[0],
        "CHAIN": lengths[0],
        "SUMS": sums[0],
        "PROGRAMS": 0,
        **dict.fromkeys(streams, 0),
        "num_warps": 8 if block_m * block_n >= 128 * 128 and k > _SHORT else 4,
        "num_stages": 3,
    }
    packing = (PRECISION_TEXT, PEAKS_TEXT, PACKING_TEXT, OPERANDS_TEXT)
    views = product_views(product, product_sizes(product))
    multiply = (PIECES_TEXT, PACKED_STREAM_TEXT) if streams else (MULTIPLY_PACKED_TEXT,)
    kernels = (*packing, PLACE_TEXT, store, PACKED_TEXT, *multiply)
    text = "\n".join((f"BATCH = {batch}", *views, *kernels))
    summary = "Matrix product of planes of narrow numbers, into which the operands are split first."
    return triton_program(summary, space, configuration, text, DESCRIPTOR_IMPORT)


def triton_program(
    summary: str, space: Space, configuration: Configuration, kernels: str, *imports: str
) -> TritonProgram:
    """Return a program whose values and call are still to come."""
    return TritonProgram(
        summary=summary,
        space=space,
        configuration=configuration,
        kernels=kernels,
        values=(),
        body=(),
        imports=imports,
    )


def product_program(
    problem: Problem, graph: OperatorGraph, product: Product, program: TritonProgram
) -> str | None:
    """Complete a program by the call."""
    names = local_names(problem, graph)
    if names is None:
        return None
    a, b = names[product.a.value], names[product.b.value]
    completed = replace(
        program,
        values=tuple(dict.fromkeys((product.a.value, product.b.value))),
        body=(
            f"out = torch.empty({product.shape}, dtype={a}.dtype, device={a}.device)",
            f"multiply({a}, {b}, out, out)",
            "return out",
        ),
    )
    return write_program(problem, graph, completed)


TILED_MATMUL = Sketch(name="tiled-matmul", device="cuda", write=_write_tiled)
"""Any product of strided operands; the depth may be split over programs."""

PACKED_MATMUL = Sketch(name="packed-matmul", device="cuda", write=_write_packed)
"""Products of float32 matrices by planes of narrow numbers."""
