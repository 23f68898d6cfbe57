"""Sketches of products whose tiles go through pointwise operations before they are written."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

from operators.sketches.module import local_names
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.followed import Followed, find_followed
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions, functions, imports
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.matmul import packed_program, tiled_program
from operators.sketches.triton.matmul_text import STORE_HEAD
from operators.sketches.triton.program import TritonProgram, write_program
from operators.sketches.triton.tiles import Place
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
    names = local_names(problem, graph)
    if names is None:
        return None
    terms, root = found.rest.terms, found.rest.output.term
    needed = terms.needed([root])
    loads = [terms[number].payload for number in needed]
    others = [load.value for load in loads if isinstance(load, Load) and load.value != found.value]
    others = list(dict.fromkeys(others))
    store = _store(found, names, others)
    if store is None:
        return None
    called = {"fetch", *functions(terms, needed)}
    program = product_of("\n".join((definitions(called), store)))
    a, b = names[found.product.a.value], names[found.product.b.value]
    extras = "".join(f"{names[value]}, " for value in others).rstrip() or "out"
    shape = found.rest.shape
    completed = replace(
        program,
        summary=f"{program.summary[:-1]}, finished before it is written.",
        values=tuple(dict.fromkeys((found.product.a.value, found.product.b.value, *others))),
        body=(
            f"out = torch.empty({shape}, dtype=torch.{found.dtype}, device={a}.device)",
            f"multiply({a}, {b}, out, ({extras}))",
            "return out",
        ),
        imports=tuple(dict.fromkeys((*program.imports, *imports(called)))),
    )
    return write_program(problem, graph, completed)


def _store(found: Followed, names: Mapping[str, str], others: list[str]) -> str | None:
    """The text of `store_tile`; None where rows and columns cut across the tensors' axes."""
    terms, root, sizes = found.rest.terms, found.rest.output.term, found.rest.sizes
    columns = found.product.sizes[2]
    inner = [1]
    for size in reversed(sizes):
        inner.append(inner[-1] * size)
    if columns not in inner:
        return None

    def place(axes: frozenset[int], strides: Mapping[int, int]) -> Place:
        parts, sides = [], set()
        for axis in sorted(axes):
            below = inner[len(sizes) - 1 - axis]
            side, below = ("line", below // columns) if below >= columns else ("columns", below)
            sides.add(side)
            index = f"{side} // {below}" if below > 1 else side
            limit = columns if side == "columns" else inner[-1] // columns
            if below * sizes[axis] != limit:
                index = f"{index} % {sizes[axis]}"
            parts.append(f"({index}) * {strides[axis]}")
        checks = [text for side, text in _CHECKS.items() if side in sides]
        offset = " + ".join(parts) or "0"
        return Place(offset=offset, inside=" & ".join(checks) or "None", full="False")

    emitter = Emitter(terms=terms, names=names, place=place)
    for number in terms.needed([root]):
        load = terms[number].payload
        if isinstance(load, Load) and load.value == found.value:
            emitter.known[number] = "total"
    lines = [f"{names[value]}_ptr = extras[{index}]" for index, value in enumerate(others)]
    lines += emitter.statements([root])
    lines.append(f"value = {emitter.known[root]} + tl.zeros_like(total)")
    lines.append("place = line * N + columns")
    lines.append(
        "tl.store(out + place, value.to(out.dtype.element_ty), mask=(rows < M) & (columns < N))"
    )
    return _STORE + textwrap.indent("\n".join(lines), "    ") + "\n"


_CHECKS = {"line": "(rows < M)", "columns": "(columns < N)"}

TILED_FOLLOWED = Sketch(name="tiled-matmul-followed", device="cuda", write=_write_tiled)
"""A product by tiles and pointwise operations."""

PACKED_FOLLOWED = Sketch(name="packed-matmul-followed", device="cuda", write=_write_packed)
"""A product of planes and pointwise operations."""
