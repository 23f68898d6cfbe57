"""The sketches that work on tiles of columns: reductions over other than the last dimension."""

from __future__ import annotations

from operators.sketches.cpp.column_program import write_columns
from operators.sketches.patterns.computation import lower
from operators.sketches.patterns.schedule import plan
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["COLUMN_TILES"]


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    computation = lower(graph)
    schedule = computation and plan(computation)
    if not schedule or not schedule.passes or not schedule.loops[-1].kept:
        return None
    return write_columns(problem, graph, schedule, "Tiles of columns, one run down for each pass.")


COLUMN_TILES = Sketch(name="column-tiles", device="cpu", write=_write)
"""Reductions along a dimension that is not the last, vectorised along the last."""
