"""Sketches of products whose tiles go through pointwise operations before they are written."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

from operators.sketches.module import local_names
from operators.sketches.patterns.followed import Followed, find_followed
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.matmul import packed_program, tiled_program
from operators.sketches.triton.matmul_text import STORE_HEAD
from operators.sketches.triton.program import TritonProgram
from operators.sketches.triton.rest import (
    called_functions,
    finished_product,
    other_values,
    product_place,
    result_loads,
)
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["PACKED_FOLLOWED", "TILED_FOLLOWED"]

_STORE = f'''{STORE_HEAD}
    """Write a tile of the result, after what is done to each element."""
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    line = batch.to(tl.int64) * M + rows
'''


def _write_tiled(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_followed(problem, graph, FLOATS)
    if found is None:
        return None
    return _program(
        problem, graph, found, lambda store: tiled_program(found.product, store, splits=False)
    )


def _write_packed(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_followed(problem, graph)
    if found is None or min(found.product.sizes[1:]) < 16:
        return None
    return _program(problem, graph, found, lambda store: packed_program(found.product, store))


def _program(
    problem: Problem,
    graph: OperatorGraph,
    found: Followed,
    product_of: Callable[[str], TritonProgram],
) -> str | None:
    """Complete the program of a product by what follows it."""
    names, others = local_names(problem, graph), other_values(found.rest, found.value)
    if names is None:
        return None
    store = _store(found, names, others)
    if store is None:
        return None
    program = product_of("\n".join((definitions(called_functions(found.rest)), store)))
    program = replace(program, summary=f"{program.summary[:-1]}, finished before it is written.")
    return finished_product(problem, graph, found, program, names, others)


def _store(found: Followed, names: Mapping[str, str], others: list[str]) -> str | None:
    """The text of `store_tile`; None where rows and columns cut across the tensors' axes."""
    rest = found.rest
    place = product_place(rest.sizes, found.product.sizes[2])
    if place is None:
        return None
    emitter = Emitter(terms=rest.terms, names=names, place=place)
    emitter.known.update(dict.fromkeys(result_loads(rest, found.value), "total"))
    lines = [f"{names[value]}_ptr = extras[{index}]" for index, value in enumerate(others)]
    lines += emitter.statements([rest.output.term])
    lines.append(f"value = {emitter.known[rest.output.term]} + tl.zeros_like(total)")
    lines.append("place = line * N + columns")
    lines.append(
        "tl.store(out + place, value.to(out.dtype.element_ty), mask=(rows < M) & (columns < N))"
    )
    return _STORE + textwrap.indent("\n".join(lines), "    ") + "\n"


TILED_FOLLOWED = Sketch(name="tiled-matmul-followed", device="cuda", write=_write_tiled)
"""A product by tiles and pointwise operations."""

PACKED_FOLLOWED = Sketch(name="packed-matmul-followed", device="cuda", write=_write_packed)
"""A product of planes and pointwise operations."""
