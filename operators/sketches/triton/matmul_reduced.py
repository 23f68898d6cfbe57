"""Sketch of products whose rows are reduced at once: the product itself is never written.

A program has a block of rows and goes along one span of the columns. Each tile is finished element
by element and folded into one value for each row; where there are several spans, a second kernel
joins theirs.
"""

from __future__ import annotations

from operators.sketches.module import local_names
from operators.sketches.patterns.operands import FLOATS
from operators.sketches.patterns.reduced import Reduced, find_reduced
from operators.sketches.sketch import Sketch
from operators.sketches.triton.calls import definitions
from operators.sketches.triton.fields import Field, calm_field, fields_of
from operators.sketches.triton.matmul import (
    power_from,
    product_sizes,
    product_strides,
    product_views,
    tiled_program,
    triton_program,
)
from operators.sketches.triton.matmul_depth_text import DEPTH_TEXT
from operators.sketches.triton.matmul_reduced_text import ReducedKernels
from operators.sketches.triton.packing_text import PEAKS_TEXT
from operators.sketches.triton.precision import PRECISION_TEXT
from operators.sketches.triton.program import TritonProgram
from operators.sketches.triton.rest import finished_product, other_values, product_place
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["TILED_REDUCED"]

_PROGRAMS = 256
"""Programs that keep every processor busy, as a guess for the default."""
_MOST_SPANS = 128
_FINISHED = 16
"""Rows of a program of the second kernel."""
_MULTIPLY = '''
def multiply(a, b, out, extras):
    """Multiply two tensors and reduce the rows of the product."""
    lines, spans = out.numel(), CONFIG["SPANS"]
    parts, a_peaks, b_peaks = out, a, b
    if CONFIG["PRECISION"] == "fp16x3":
        a_peaks, b_peaks = peaks_of(a, A_VIEW), peaks_of(b, B_VIEW)
    if spans > 1:
        parts = torch.empty({variables} * lines * spans, dtype=torch.float32, device=out.device)
    programs = BATCH * triton.cdiv(SIZES["M"], CONFIG["BLOCK_M"]) * spans
    reduced_product[(programs,)](
        a, b, a_peaks, b_peaks, out, extras, parts, lines, **SIZES, PEAKS=PEAKS, **CONFIG
    )
    if spans > 1:
        padded = triton.next_power_of_2(spans)
        join_kernel[(triton.cdiv(lines, {rows}),)](out, extras, parts, lines, spans, padded, {rows})
'''


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    reduced = find_reduced(problem, graph, FLOATS)
    names = local_names(problem, graph)
    if reduced is None or names is None:
        return None
    found = reduced.found
    others = other_values(found.rest, found.value)
    place = product_place(found.rest.sizes, found.product.sizes[2])
    if place is None:
        return None
    kernels = ReducedKernels(
        found=found, fields=_fields(reduced), names=names, others=tuple(others), place=place
    )
    program = _program(kernels)
    return finished_product(problem, graph, found, program, names, others)


def _fields(reduced: Reduced) -> tuple[Field, ...]:
    terms = reduced.found.rest.terms
    if reduced.relative is not None:
        return (calm_field(terms, reduced.relative),)
    return fields_of(terms, reduced.reductions)


def _program(kernels: ReducedKernels) -> TritonProgram:
    """The program, of which the call is still to come."""
    product = kernels.found.product
    tiled = tiled_program(product, "", splits=False)
    kept = [name for name in tiled.space if name not in ("GROUP", "SPLIT_K", "STREAM")]
    block_m, block_n = (int(tiled.configuration[name]) for name in ("BLOCK_M", "BLOCK_N"))
    batch, m, n, _ = product.sizes
    blocks, tiles = batch * -(-m // block_m), -(-n // block_n)
    spans = power_from(min(_PROGRAMS // blocks, tiles), 1, _MOST_SPANS)
    near = (v for v in (1, spans // 2, spans, spans * 2) if 0 < v < 2 * tiles)
    choices = tuple(dict.fromkeys(near))
    sizes = {name: size for name, size in product_sizes(product).items() if len(name) == 1}
    variables = sum(len(field.variables) for field in kernels.fields)
    text = "\n".join(
        (
            f"BATCH = {batch}",
            *product_views(product, sizes | product_strides(product.a, product.b)),
            PRECISION_TEXT,
            PEAKS_TEXT,
            DEPTH_TEXT,
            definitions(kernels.functions),
            "",
            kernels.product(),
            "\n",
            kernels.join(),
            "",
            _MULTIPLY.format(variables=variables, rows=_FINISHED),
        )
    )
    return triton_program(
        "Matrix product whose rows are reduced tile by tile; it is never written.",
        {name: tiled.space[name] for name in kept} | {"SPANS": choices},
        {name: tiled.configuration[name] for name in kept} | {"SPANS": spans},
        text,
    )


TILED_REDUCED = Sketch(name="tiled-matmul-reduced", device="cuda", write=_write)
"""A product, pointwise operations, reductions of its rows, and pointwise operations on those."""
