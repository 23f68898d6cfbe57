"""Products whose rows are reduced: a sum, a mean, an extreme, a logarithm of a sum."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import prod

from operators.sketches.patterns.followed import Followed, find_rest, reads_in_place
from operators.sketches.patterns.online import Relative, relative_sum
from operators.sketches.patterns.schedule import Level, Schedule, plan
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Reduced", "find_reduced"]

_KINDS = frozenset({"sum", "max", "min", "peak"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A product, pointwise operations, reductions of each row, and pointwise operations on those.

    Attributes:
        found: The product and all that comes after it; the output has a value for each row.
        reductions: Terms of the reductions, each of kind "sum", "max", "min" or "peak". None of
            them stands on another one, unless `relative` is known.
        relative: The two reductions where they are a largest value and a sum relative to it.
    """

    found: Followed
    reductions: tuple[int, ...]
    relative: Relative | None


def find_reduced(
    problem: Problem, graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Reduced | None:
    """Return the product with reduced rows that the whole graph is, or None.

    A row is what the product has along its last dimension, all of it and nothing more.

    The arguments are those of `find_rest`.
    """
    found = find_rest(problem, graph, dtypes)
    schedule = plan(found.rest) if found is not None else None
    if found is None or schedule is None or schedule.level is not Level.ROW:
        return None
    relative = relative_sum(schedule)
    if len(schedule.passes) != 1 and relative is None:
        return None
    batch, m, n, _ = found.product.sizes
    kinds = {schedule.terms[number].payload for number in schedule.fields}
    if not kinds <= _KINDS or not _reduces_rows(schedule, n):
        return None
    if not reads_in_place(found.rest, found.value, batch * m * n):
        return None
    return Reduced(found=found, reductions=schedule.fields, relative=relative)


def _reduces_rows(schedule: Schedule, columns: int) -> bool:
    """Tell whether the last axes, `columns` elements, are reduced and all others are kept."""
    kept = [loop.kept for loop in schedule.loops]
    reduced = prod(loop.size for loop in schedule.loops if not loop.kept)
    written = [axis for axes in schedule.computation.output.dims for axis in axes]
    return kept == sorted(kept, reverse=True) and reduced == columns and written == sorted(written)
