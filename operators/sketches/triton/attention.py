"""Sketches of attention: scores kept in registers, or written between two products."""

from __future__ import annotations

from archives.configuration import Configuration, Space
from operators.sketches.module import local_names
from operators.sketches.patterns.attention import Attention, find_attention
from operators.sketches.patterns.operands import FLOATS, Operand
from operators.sketches.patterns.product import FULL, LOWER
from operators.sketches.sketch import Sketch
from operators.sketches.triton.attention_text import (
    ONLINE_TEXT,
    STAGED_PLANES_TEXT,
    STAGED_TILES_TEXT,
)
from operators.sketches.triton.matmul import (
    DESCRIPTOR_IMPORT,
    literal,
    operand_view,
    peak_count,
    power_from,
    product_strides,
)
from operators.sketches.triton.matmul_stream import PROCESSORS
from operators.sketches.triton.matmul_text import MERGE_TEXT, PLACE_TEXT, STORE_TEXT, TILED_TEXT
from operators.sketches.triton.packed_text import PACKED_TEXT
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

__all__ = ["ONLINE_ATTENTION", "STAGED_ATTENTION", "TILED_ATTENTION"]

_WIDEST = 256
"""The longest head whose sums fit into registers."""
_LONGEST = 16384
"""The most keys whose scores fit into the registers of one program."""


def _write_online(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_attention(problem, graph, FLOATS)
    if found is None:
        return None
    batch, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    full = power_from(depth, 16, 1 << 20), power_from(wide, 16, 1 << 20)
    if max(full) > _WIDEST:
        return None
    sizes = {"QUERIES": queries, "KEYS": keys, "DEPTH": depth, "WIDE": wide}
    k_step, k_column, k_row = found.k.stride
    for letter, view, (step, row, column) in (
        ("Q", found.q, found.q.stride),
        ("K", found.k, (k_step, k_row, k_column)),
        ("V", found.v, found.v.stride),
    ):
        sizes |= {f"{letter}_OFFSET": view.offset, f"{letter}_BATCH": step}
        sizes |= {f"{letter}_ROW": row, f"{letter}_COLUMN": column}
    sizes |= {"SAFE": int(found.safe), "REACH": found.reach, "CAUSAL": int(found.causal)}
    sizes |= {"FULL_DEPTH": full[0], "FULL_WIDE": full[1]}
    precisions = in_loop_precisions(found.dtype, min(depth, keys))
    space: Space = {
        "PRECISION": precisions,
        "BLOCK_M": (32, 64, 128),
        "BLOCK_N": (16, 32, 64, 128),
        "num_warps": (4, 8),
        "num_stages": (1, 2, 3),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": power_from(queries, 32, 64),
        "BLOCK_N": power_from(keys, 16, 64 if max(full) <= 64 else 32),
        "num_warps": 4,
        "num_stages": 2,
    }
    numbers = (f"BATCH = {batch}", literal("SIZES", sizes), f"SCALE = {found.scale!r}")
    program = TritonProgram(
        summary="Attention with an online softmax: scores stay in registers.",
        space=space,
        configuration=configuration,
        kernels="\n".join((*numbers, PRECISION_TEXT, ONLINE_TEXT)),
        values=(),
        body=(),
    )
    return _program(problem, graph, found, program)


def _write_staged(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_attention(problem, graph)
    if found is None:
        return None
    _, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    if min(queries, keys, depth, wide) < 16 or keys > _LONGEST:
        return None
    precisions = packed_precisions(min(depth, keys))
    block_m, block_n = power_from(queries, 16, 128), power_from(min(keys, wide), 16, 256)
    block_k = power_from(min(depth, keys), 32, 64)
    space: Space = {
        "PRECISION": precisions,
        "BLOCK_M": (block_m, block_m * 2),
        "BLOCK_N": (block_n // 2, block_n),
        "BLOCK_K": (block_k,),
        "GROUP": (4,),
        "CHAIN": chains(precisions[0], max(depth, keys)),
        "SUMS": ("registers", "memory"),
        "PROGRAMS": (0, PROCESSORS),
        "SOFTMAX_WARPS": (1, 2, 4),
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "GROUP": 4,
        "CHAIN": chains(precisions[0], max(depth, keys))[0],
        "SUMS": "registers",
        "PROGRAMS": 0,
        "SOFTMAX_WARPS": _warps(keys),
        "num_warps": 8 if block_m * block_n >= 128 * 128 else 4,
        "num_stages": 3,
    }
    numbers = _plane_numbers(found)
    kernels = (
        PRECISION_TEXT,
        PEAKS_TEXT,
        PACKING_TEXT,
        PLACE_TEXT,
        STORE_TEXT,
        PACKED_TEXT,
        STAGED_PLANES_TEXT,
    )
    program = TritonProgram(
        summary="Attention as two products of planes, with a softmax of whole rows between them.",
        space=space,
        configuration=configuration,
        kernels="\n".join((*numbers, *kernels)),
        values=(),
        body=(),
        imports=(DESCRIPTOR_IMPORT,),
    )
    return _program(problem, graph, found, program)


def _write_tiled(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_attention(problem, graph, FLOATS)
    if found is None:
        return None
    _, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    if keys > _LONGEST:
        return None
    precisions = in_loop_precisions(found.dtype, min(depth, keys))
    chain = (1 << 30,) if precisions == ("native",) else (0, 512)
    block_m, block_n = power_from(queries, 16, 128), power_from(min(keys, wide), 16, 128)
    space: Space = {
        "PRECISION": tuple(p for p in precisions if p != "ieee"),
        "BLOCK_M": (max(block_m // 2, 16), block_m),
        "BLOCK_N": (max(block_n // 2, 16), block_n),
        "BLOCK_K": (32, 64),
        "GROUP": (4,),
        "SPLIT_K": (1,),
        "CHAIN": chain,
        "num_warps": (4, 8),
        "num_stages": (3, 4),
    }
    configuration: Configuration = {
        "PRECISION": precisions[0],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": 64,
        "GROUP": 4,
        "SPLIT_K": 1,
        "CHAIN": chain[0],
        "num_warps": 8 if block_m * block_n >= 128 * 128 else 4,
        "num_stages": 3,
    }
    numbers = _tile_numbers(found)
    kernels = (
        PRECISION_TEXT,
        PEAKS_TEXT,
        PLACE_TEXT,
        STORE_TEXT,
        MERGE_TEXT,
        TILED_TEXT,
        STAGED_TILES_TEXT,
    )
    program = TritonProgram(
        summary="Attention as two products by tiles, with a softmax of whole rows between them.",
        space=space,
        configuration=configuration,
        kernels="\n".join((*numbers, *kernels)),
        values=(),
        body=(),
    )
    return _program(problem, graph, found, program)


def _plane_numbers(found: Attention) -> tuple[str, ...]:
    """The text of sizes and views, for products of planes."""
    batch, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    first, second = _product_sizes(found)
    return (
        f"BATCH = {batch}",
        f"PEAKS = {peak_count(batch * queries * depth, batch * keys * max(depth, wide))}",
        f"SCALE, SAFE, REACH = {found.scale!r}, {int(found.safe)}, {found.reach}",
        literal("Q_VIEW", operand_view(found.q, 0, right=False)),
        literal("K_VIEW", operand_view(found.k, 0, right=True)),
        literal("V_VIEW", operand_view(found.v, 0, right=True)),
        literal("SCORE_SIZES", first),
        literal("OUT_SIZES", second),
    )


def _tile_numbers(found: Attention) -> tuple[str, ...]:
    """The text of sizes, strides and views, for products by tiles."""
    batch, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    scores = Operand(
        value="", shape=(batch, queries, keys), stride=(queries * keys, keys, 1), offset=0
    )
    first, second = _product_sizes(found)
    return (
        f"BATCH = {batch}",
        f"PEAKS = {peak_count(batch * queries * depth, batch * keys * max(depth, wide))}",
        f"SCALE, SAFE, REACH = {found.scale!r}, {int(found.safe)}, {found.reach}",
        f"SOFTMAX_WARPS = {_warps(keys)}",
        literal("Q_VIEW", operand_view(found.q, 0, right=False)),
        literal("K_VIEW", operand_view(found.k, 0, right=True)),
        literal("V_VIEW", operand_view(found.v, 0, right=True)),
        literal("SCORE_VIEW", operand_view(scores, 0, right=False)),
        literal("SCORE_SIZES", first | product_strides(found.q, found.k)),
        literal("OUT_SIZES", second | product_strides(scores, found.v)),
    )


def _product_sizes(found: Attention) -> tuple[dict[str, int], dict[str, int]]:
    """Return the sizes of both products; a triangle of weights halves the work of each."""
    _, queries, depth = found.q.shape
    keys, wide = found.v.shape[1:]
    kind = LOWER if found.triangular else FULL
    first = {"M": queries, "N": keys, "K": depth}
    second = {"M": queries, "N": wide, "K": keys}
    return (
        first | {"A_TRIANGLE": FULL, "B_TRIANGLE": FULL, "OUT_TRIANGLE": kind},
        second | {"A_TRIANGLE": kind, "B_TRIANGLE": FULL, "OUT_TRIANGLE": FULL},
    )


def _warps(keys: int) -> int:
    """Return warps that hold one row of scores."""
    return power_from(keys // 512, 1, 8)


def _program(
    problem: Problem, graph: OperatorGraph, found: Attention, program: TritonProgram
) -> str | None:
    """Complete a program by the call."""
    names = local_names(problem, graph)
    if names is None:
        return None
    q, k, v = (names[view.value] for view in (found.q, found.k, found.v))
    return write_program(
        problem,
        graph,
        TritonProgram(
            summary=program.summary,
            space=program.space,
            configuration=program.configuration,
            kernels=program.kernels,
            values=tuple(dict.fromkeys(view.value for view in (found.q, found.k, found.v))),
            body=(
                f"out = torch.empty({found.shape}, dtype={q}.dtype, device={q}.device)",
                f"attend({q}, {k}, {v}, out)",
                "return out",
            ),
            imports=program.imports,
        ),
    )


ONLINE_ATTENTION = Sketch(name="online-attention", device="cuda", write=_write_online)
"""Heads of at most 256 numbers."""

STAGED_ATTENTION = Sketch(name="staged-attention", device="cuda", write=_write_staged)
"""Long heads: products on planes of narrow numbers, scores in memory."""

TILED_ATTENTION = Sketch(name="tiled-attention", device="cuda", write=_write_tiled)
"""Any head: products that split their operands tile by tile, scores in memory."""
