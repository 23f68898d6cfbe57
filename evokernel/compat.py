"""Numbers by KernelBench's own rules, for comparison with published ones; never for selection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archives.store import Store
from evaluator.compat import KernelBenchVerdict
from evokernel.fast_p import THRESHOLDS
from evokernel.problem_report import best_of
from evokernel.report import Report
from problems.errors import ProblemError
from problems.problem import Problem

if TYPE_CHECKING:
    from evaluator.referee.referee import Referee

__all__ = [
    "Judged",
    "fast_p_by_kernelbench",
    "judge_best",
    "judge_by_kernelbench",
    "telling_by_kernelbench",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A problem's best candidate by KernelBench's rules.

    Attributes:
        problem: The problem.
        candidate: Id of the best of its archive; None: it has none that is correct.
        verdict: What KernelBench would say of it.
    """

    problem: Problem
    candidate: str | None
    verdict: KernelBenchVerdict


def judge_by_kernelbench(problem: Problem, source: str, device: str) -> KernelBenchVerdict:
    """Start a referee, let it judge a candidate by KernelBench's rules, and end it.

    Args:
        problem: The problem.
        source: Text of the candidate.
        device: What to measure on: "cpu" or "cuda".

    Raises:
        ProblemError: The problem does not load or run.
        EvaluatorError: There is no such device, or no process can be started.
    """
    return _judge([(problem, source)], device)[0]


def judge_best(store: Store, report: Report) -> list[Judged]:
    """Judge the best candidate of each problem of a run, degenerate ones included.

    Args:
        store: The run.
        report: What was read from it.

    Raises:
        ProblemError: A problem does not load or run.
        EvaluatorError: There is no such device, or no process can be started.
    """
    device = "cpu" if report.device is None else report.device.kind
    problems = [line.problem for line in report.problems]
    found = ((problem, best_of(store, problem)) for problem in problems)
    best = {problem.key: held.candidate for problem, held in found if held is not None}
    asked = [
        (problem, store.candidate(best[problem.key], problem.key).source)
        for problem in problems
        if problem.key in best
    ]
    verdicts = dict(zip(best, _judge(asked, device), strict=True))
    nothing = KernelBenchVerdict(correct=False, log="no candidate is correct")
    return [
        Judged(
            problem=problem,
            candidate=best.get(problem.key),
            verdict=verdicts.get(problem.key, nothing),
        )
        for problem in problems
    ]


def fast_p_by_kernelbench(judged: Sequence[Judged]) -> dict[float, float | None]:
    """Return the share of problems whose best is correct and faster than p; None of none."""
    speedups = [one.verdict.speedup or 0.0 for one in judged]
    return {
        p: sum(speedup > p for speedup in speedups) / len(speedups) if speedups else None
        for p in THRESHOLDS
    }


def telling_by_kernelbench(judged: Sequence[Judged]) -> list[Judged]:
    """Leave out the problems of which KernelBench's tolerance says nothing.

    Something passes there that computes nothing, such as zeros. The referee's own bound follows the
    outputs and judges them like any other problem.
    """
    return [one for one in judged if not one.verdict.proves_nothing]


def _verdict(referee: Referee, problem: Problem, source: str) -> KernelBenchVerdict:
    """Judge one of several: a problem that does not run here costs its own row alone."""
    try:
        return referee.as_kernelbench(problem, source)
    except ProblemError as error:
        return KernelBenchVerdict(correct=False, log=str(error))


def _judge(asked: Sequence[tuple[Problem, str]], device: str) -> list[KernelBenchVerdict]:
    from evaluator.referee.referee import new_referee

    if not asked:
        return []
    referee = new_referee(device)
    try:
        referee.start()
        return [_verdict(referee, problem, source) for problem, source in asked]
    finally:
        referee.close()
