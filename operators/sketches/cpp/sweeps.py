"""The sketches that sweep along memory: pointwise chains, rows, full reductions and losses."""

from __future__ import annotations

from operators.sketches.cpp.sweep_program import write_sweep
from operators.sketches.patterns.computation import lower
from operators.sketches.patterns.online import online_pair
from operators.sketches.patterns.schedule import Level, plan
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["KEPT_SWEEP", "ONLINE_SWEEP", "SHIFTED_SWEEP", "SWEEP"]


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    computation = lower(graph)
    schedule = computation and plan(computation)
    if not schedule or (schedule.passes and schedule.loops[-1].kept):
        return None
    return write_sweep(problem, graph, schedule, "One sweep over memory for each pass.")


def _write_shifted(problem: Problem, graph: OperatorGraph) -> str | None:
    plain, shifted = lower(graph), lower(graph, shifted=True)
    schedule = shifted and plan(shifted)
    if not plain or not shifted or not schedule or schedule.loops[-1].kept:
        return None
    if len(plain.terms.terms) == len(shifted.terms.terms):
        return None
    return write_sweep(
        problem,
        graph,
        schedule,
        "Mean and variance in one sweep, relative to the middle one of three elements.",
    )


def _write_kept(problem: Problem, graph: OperatorGraph) -> str | None:
    computation = lower(graph)
    schedule = computation and plan(computation)
    if not computation or not schedule or not schedule.passes or schedule.rows == 1:
        return None
    if schedule.level is not Level.ELEMENT or schedule.loops[-1].kept:
        return None
    terms = schedule.terms
    operands = [terms[number].args[0] for number in schedule.passes[-1]]
    wanted = terms.needed([computation.output.term], schedule.fields)
    kept = [n for n in operands if n in wanted and terms[n].op != "load"]
    if not kept:
        return None
    summary = "What is summed is left in the output, which is then scaled in place."
    return write_sweep(problem, graph, schedule, summary, kept=kept[0])


def _write_online(problem: Problem, graph: OperatorGraph) -> str | None:
    computation = lower(graph)
    schedule = computation and plan(computation)
    if not schedule or schedule.loops[-1].kept:
        return None
    pair = online_pair(schedule)
    if pair is None or schedule.rows == 1:
        return None
    summary = "Peak and sum of exponentials in one sweep, joined part by part."
    return write_sweep(problem, graph, schedule, summary, online=pair)


SWEEP = Sketch(name="sweep", device="cpu", write=_write)
"""Everything in as many sweeps over a row as its reductions depend on each other."""

ONLINE_SWEEP = Sketch(name="sweep-online", device="cpu", write=_write_online)
"""Softmax and its kin with one sweep for peak and sum together."""

KEPT_SWEEP = Sketch(name="sweep-kept-terms", device="cpu", write=_write_kept)
"""The same, but what the last pass sums (a softmax's exponentials) is computed once only."""

SHIFTED_SWEEP = Sketch(name="sweep-shifted-variance", device="cpu", write=_write_shifted)
"""The same with mean and variance in one sweep, from sums of x - m and of its square, m being
the middle one of three elements of the row."""
