"""Turns a computation into loops and passes.

Axes are *kept* or *reduced*. The values kept along the kept axes are rows: a row has its own
reductions, in as many passes as they depend on each other, and then its outputs. What is reduced
over rows too is a total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from operators.sketches.module import state_text
from operators.sketches.patterns.axes import contiguous_strides
from operators.sketches.patterns.computation import Computation
from operators.sketches.patterns.expressions import Load, Terms

__all__ = ["Level", "Loop", "Schedule", "plan"]


class Level(StrEnum):
    """How many values an output has."""

    ELEMENT = "element"
    ROW = "row"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Neighbouring axes that are run as one loop.

    Attributes:
        axes: The axes, outermost first.
        size: Iterations.
        kept: True for kept axes, False for reduced ones.
    """

    axes: tuple[int, ...]
    size: int
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A computation as loops and passes.

    Attributes:
        computation: What is computed.
        loops: The loops over all axes, outermost first.
        passes: Reductions of a row by pass: those of a later pass stand on earlier ones.
        totals: Reductions over rows.
        level: What the output has a value for.
        stores: Strides of the output by axis.
    """

    computation: Computation
    loops: tuple[Loop, ...]
    passes: tuple[tuple[int, ...], ...]
    totals: tuple[int, ...]
    level: Level
    stores: Mapping[int, int]

    @property
    def terms(self) -> Terms:
        """The terms of the computation."""
        return self.computation.terms

    @property
    def rows(self) -> int:
        """Number of rows; 1 where everything is reduced, or nothing."""
        return math.prod(loop.size for loop in self.loops if loop.kept)

    @property
    def outgrows_caches(self) -> bool:
        """The output is larger than a core's own caches, as a guess for defaults."""
        return math.prod(self.computation.shape) * 4 > 1 << 21

    @property
    def fields(self) -> tuple[int, ...]:
        """Reductions of a row, in the order of the passes."""
        return tuple(number for group in self.passes for number in group)

    def row_roots(self) -> tuple[int, ...]:
        """Terms that are wanted once for each row: outputs, updates, operands of totals."""
        roots = [placed.term for _, placed in self.computation.updates]
        roots += [self.terms[total].args[0] for total in self.totals]
        if self.level is Level.ROW:
            roots.append(self.computation.output.term)
        return tuple(roots)

    def opening(self, device: str = "") -> list[str]:
        """Return the first lines of `forward`: counters, and the output tensor.

        Args:
            device: Text of the device that the output is on; "": the CPU.
        """
        computation = self.computation
        lines = []
        if computation.updates:
            lines.append("if not self.training:")
            lines.append('    raise ValueError("this kernel covers training mode only")')
        lines += [f"{state_text(name)}.add_(1)" for name in computation.counters]
        where = f", device={device}" if device else ""
        tensor = f"{computation.shape}, dtype=torch.{computation.dtype}{where}"
        return [*lines, f"out = torch.empty({tensor})"]

    def calls(self, arguments: Sequence[str], stages: int) -> list[str]:
        """Return the lines of `forward` that call "whole", or "stage1", "stage2" and so on."""
        listed = ", ".join(arguments)
        if stages == 1:
            return [f"KERNELS.whole({listed})"]
        lines = [f"arguments = ({listed})", 'if CONFIG["FUSED"]:', "    KERNELS.whole(*arguments)"]
        lines.append("else:")
        return lines + [f"    KERNELS.stage{n}(*arguments)" for n in range(1, stages + 1)]


def plan(computation: Computation) -> Schedule | None:
    """Find loops and passes for a computation.

    Returns:
        The schedule; None where its reductions do not nest as rows and totals.
    """
    terms = computation.terms
    output = computation.output
    roots = [output.term, *(placed.term for _, placed in computation.updates)]
    needed = terms.needed(roots)
    every = frozenset(axis for axis, size in enumerate(computation.sizes) if size > 1)
    reductions = [number for number in needed if terms[number].op == "reduce"]
    first = [number for number in reductions if terms[terms[number].args[0]].axes == every]
    kept_sets = {terms[number].axes for number in first}
    if len(kept_sets) > 1 or not every:
        return None
    kept = next(iter(kept_sets), frozenset())
    totals = [number for number in reductions if number not in first]
    if any(terms[n].axes or terms[terms[n].args[0]].axes != kept for n in totals):
        return None
    level = _level(computation, every, kept, bool(first))
    if level is None or (totals and level is not Level.TOTAL):
        return None
    stores = dict(contiguous_strides(output.dims, computation.sizes))
    loads = [terms[n].payload for n in needed if terms[n].op == "load"]
    strides = [dict(load.strides) for load in loads if isinstance(load, Load)]
    return Schedule(
        computation=computation,
        loops=_loops(computation.sizes, kept, [*strides, stores]),
        passes=_passes(terms, first),
        totals=tuple(totals),
        level=level,
        stores=stores,
    )


def _level(
    computation: Computation, every: frozenset[int], kept: frozenset[int], reduces: bool
) -> Level | None:
    output = computation.output
    axes = frozenset(axis for dim in output.dims for axis in dim)
    if axes != computation.terms[output.term].axes:
        return None
    if axes == every:
        return Level.ELEMENT
    if axes == kept and reduces:
        return Level.ROW
    return Level.TOTAL if not axes and reduces else None


def _loops(
    sizes: Sequence[int], kept: frozenset[int], strides: Sequence[Mapping[int, int]]
) -> tuple[Loop, ...]:
    loops: list[Loop] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        last = loops[-1] if loops else None
        if (
            last is not None
            and last.kept == (axis in kept)
            and all(steps.get(last.axes[-1], 0) == steps.get(axis, 0) * size for steps in strides)
        ):
            loops[-1] = Loop(axes=(*last.axes, axis), size=last.size * size, kept=last.kept)
        else:
            loops.append(Loop(axes=(axis,), size=size, kept=axis in kept))
    return tuple(loops)


def _passes(terms: Terms, reductions: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    depth: dict[int, int] = {}
    for number in sorted(reductions):
        before = [depth[n] for n in terms.needed([terms[number].args[0]]) if n in depth]
        depth[number] = 1 + max(before, default=0)
    return tuple(
        tuple(number for number in sorted(depth) if depth[number] == level)
        for level in sorted(set(depth.values()))
    )
