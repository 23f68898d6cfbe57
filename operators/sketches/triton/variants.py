"""The ways in which a graph's rows can be reduced: plainly, or in fewer passes."""

from __future__ import annotations

from enum import StrEnum

from operators.sketches.module import local_names
from operators.sketches.patterns.computation import lower
from operators.sketches.patterns.online import online_pair
from operators.sketches.patterns.schedule import plan
from operators.sketches.triton.kernels import Arguments
from operators.sketches.triton.rows import Rows
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Variant", "rows_of"]


class Variant(StrEnum):
    """How the reductions of a row follow each other."""

    PLAIN = "plain"
    """In as many passes as they depend on each other."""
    ONLINE = "online"
    """A peak and a sum of exponentials in one pass."""
    SHIFTED = "shifted"
    """Mean and variance in one pass, relative to the middle one of three elements."""


def rows_of(problem: Problem, graph: OperatorGraph, variant: Variant) -> Rows | None:
    """Return the rows that a graph reduces; None where it reduces none, or not in this way."""
    computation = lower(graph, shifted=variant is Variant.SHIFTED, halves=True)
    schedule = computation and plan(computation)
    names = local_names(problem, graph)
    if not computation or not schedule or not schedule.passes or names is None:
        return None
    pair = online_pair(schedule) if variant is Variant.ONLINE else None
    if variant is Variant.ONLINE and pair is None:
        return None
    if variant is Variant.SHIFTED:
        plain = lower(graph, halves=True)
        if plain is None or len(plain.terms.terms) == len(computation.terms.terms):
            return None
    arguments = Arguments.of(schedule, names)
    return None if arguments is None else Rows.of(schedule, arguments, online=pair)
