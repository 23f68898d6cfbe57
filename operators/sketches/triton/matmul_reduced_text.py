"""Triton text of products whose rows are reduced: one kernel over tiles, one that joins spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.followed import Followed
from operators.sketches.triton.emitter import Emitter
from operators.sketches.triton.fields import Field
from operators.sketches.triton.kernels import indented, kernel
from operators.sketches.triton.matmul import product_strides
from operators.sketches.triton.rest import called_functions, result_loads
from operators.sketches.triton.tiles import Place
from operators.sketches.triton.totals import load_partials, partials

__all__ = ["ReducedKernels"]

_TILE = "tile_"
"""What the names of a tile's own reductions start with."""
_HEAD = """
across: tl.constexpr = (N + BLOCK_N - 1) // BLOCK_N
share: tl.constexpr = (across + SPANS - 1) // SPANS
down: tl.constexpr = (M + BLOCK_M - 1) // BLOCK_M
steps: tl.constexpr = (K + BLOCK_K - 1) // BLOCK_K
FULL: tl.constexpr = N % BLOCK_N == 0
span = tl.program_id(0) % SPANS
row = tl.program_id(0) // SPANS % down
batch = (tl.program_id(0) // (SPANS * down)).to(tl.int64)
rows = row * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
line = batch * M + rows
depth = tl.arange(0, BLOCK_K)
a_start = a + A_OFFSET + batch * A_BATCH + row.to(tl.int64) * BLOCK_M * A_ROW
a_tile = a_start + tl.arange(0, BLOCK_M)[:, None] * A_ROW + depth[None, :] * A_COLUMN
b_start = b + B_OFFSET + batch * B_BATCH + depth[:, None] * B_ROW
up_a = 1.0
up_b = 1.0
if PRECISION == "fp16x3":
    up_a, down_a = power_below(tl.max(tl.load(a_peaks + tl.arange(0, PEAKS))))
    up_b, down_b = power_below(tl.max(tl.load(b_peaks + tl.arange(0, PEAKS))))
"""
_LOOP = "for column in range(span * share, tl.minimum(span * share + share, across)):"
_STEP = """
columns = column * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
b_tile = b_start + columns.to(tl.int64) * B_COLUMN
total = depth_total(
    a_tile, b_tile, rows < M, columns < N, 0, steps, up_a, up_b, M, N, K, A_COLUMN, B_ROW,
    PRECISION, BLOCK_M, BLOCK_N, BLOCK_K, CHAIN,
)  # fmt: skip
if PRECISION == "fp16x3":
    total = total * down_a * down_b
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedKernels:
    """Writes the kernels.

    Attributes:
        found: The product and what comes after it.
        fields: The reductions of a row.
        names: Local variable in `forward` of each value.
        others: What is read besides the operands.
        place: Tells where that lies.
    """

    found: Followed
    fields: tuple[Field, ...]
    names: Mapping[str, str]
    others: tuple[str, ...]
    place: Callable[[frozenset[int], Mapping[int, int]], Place]

    @property
    def terms(self) -> Terms:
        """All terms of what comes after the product."""
        return self.found.rest.terms

    @property
    def functions(self) -> set[str]:
        """Names of the functions that the kernels call, as in `calls.definitions`."""
        return called_functions(self.found.rest).union(*(f.functions for f in self.fields))

    def product(self) -> str:
        """Return the kernel that multiplies and reduces one span of the columns."""
        emitter = self._emitter()
        values = [field.value for field in self.fields]
        columns = self._columns()
        by_row = [n for n in self.terms.needed(values) if not self.terms[n].axes & columns]
        before = [line for field in self.fields for line in field.starts("(BLOCK_M, 1)")]
        before += emitter.statements(by_row)
        inside = emitter.copy('""')
        inside.known.update(dict.fromkeys(result_loads(self.found.rest, self.found.value), "total"))
        step = [*_STEP.strip().splitlines(), *inside.statements(values)]
        for field in self.fields:
            tile, value = field.renamed(_TILE), inside.known[field.value]
            step += tile.takes(value, "columns", "columns < N", "FULL", "(BLOCK_M, BLOCK_N)")
            step += [*tile.folds(), *field.joins(_TILE)]
        stores = [
            f"tl.store({name}_parts_ptr + line * SPANS + span, {name}, mask=rows < M)"
            for name in self._variables
        ]
        body = [
            *self._pointers(),
            *_HEAD.strip().splitlines(),
            *before,
            _LOOP,
            *indented(step),
            "if SPANS == 1:",
            *indented(self._close(emitter)),
            "else:",
            *indented(stores),
        ]
        summary = "Reduce one span of the columns of BLOCK_M rows of the product."
        operands = ("a", "b", "a_peaks", "b_peaks", "out", "extras", "parts")
        sizes = ("M", "N", "K", *product_strides(self.found.product.a, self.found.product.b))
        blocks = ("PEAKS", "PRECISION", "BLOCK_M", "BLOCK_N", "BLOCK_K", "CHAIN", "SPANS")
        return kernel("reduced_product", summary, operands, ("LINES", *sizes, *blocks), body)

    def join(self) -> str:
        """Return the kernel that joins the spans."""
        body = [
            *self._pointers(),
            "rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
            "M: tl.constexpr = LINES",
            "line = rows.to(tl.int64)",
            "other = tl.arange(0, PADDED)[None, :]",
            *load_partials(self.fields, "line * SPANS + other", "(rows < M) & (other < SPANS)"),
            *(line for field in self.fields for line in field.folds()),
            *self._close(self._emitter()),
        ]
        constants = ("LINES", "SPANS", "PADDED", "ROWS")
        summary = "Join what all spans of ROWS rows were reduced to."
        return kernel("join_kernel", summary, ("out", "extras", "parts"), constants, body)

    def _emitter(self) -> Emitter:
        return Emitter(terms=self.terms, names=self.names, place=self.place)

    @property
    def _variables(self) -> list[str]:
        return [variable.name for field in self.fields for variable in field.variables]

    def _columns(self) -> frozenset[int]:
        """The axes that are reduced."""
        kept = {axis for axes in self.found.rest.output.dims for axis in axes}
        return frozenset(range(len(self.found.rest.sizes))) - kept

    def _pointers(self) -> list[str]:
        """Statements that name what the kernels take as tuples and in one tensor."""
        extras = [f"{self.names[value]}_ptr = extras[{i}]" for i, value in enumerate(self.others)]
        return extras + [
            f"{name} = parts + {number} * LINES * SPANS"
            for number, name in enumerate(f"{name}_ptr" for name in partials(self.fields))
        ]

    def _close(self, emitter: Emitter) -> list[str]:
        """Statements that write what rows end with, once they are reduced."""
        root = self.found.rest.output.term
        for field in self.fields:
            emitter.known.update(field.results)
        lines = emitter.statements([root])
        value = f"{emitter.known[root]} + tl.zeros(rows.shape, tl.float32)"
        return [
            *lines,
            f"value = {value}",
            "tl.store(out + line, value.to(out.dtype.element_ty), mask=rows < M)",
        ]
