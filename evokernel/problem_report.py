"""What is reported of one problem: the best of its archive, held against all that is known.

What is reported of an elite is its latest verification; where a run has not verified yet, the
number of the search stands in, and is marked as unverified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Rung, Status
from archives.store import Store
from evaluator.referee.ceiling import told_in
from evaluator.referee.roofline import Light
from evokernel.baselines import Setting, matched_speedup, speedup_over, speedup_over_best
from operators.seeds import reference_as_candidate
from problems.problem import Problem

__all__ = ["Best", "ProblemReport", "best_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best candidate of a problem's archive.

    Attributes:
        candidate: Its id.
        evaluation: The evaluation that counts for it.
        is_reference: True where it is the reference itself.
        by_matched: False where the run ranked by standard speedups though it knew matched ones.
    """

    candidate: str
    evaluation: Evaluation
    is_reference: bool
    by_matched: bool = True

    @property
    def is_verified(self) -> bool:
        """True where it was verified in fresh processes."""
        return self.evaluation.rung >= Rung.VERIFY

    @property
    def speedup(self) -> float:
        """Speedup over torch's defaults; 1 by definition for the reference itself."""
        return 1.0 if self.is_reference else self.evaluation.speedup or 0.0

    @property
    def objective_speedup(self) -> float:
        """What the run ranked it by; that of the reference is of a speedup of 1."""
        verdict = self.evaluation
        found = (verdict.objective_speedup if self.by_matched else verdict.speedup) or 0.0
        if not self.is_reference:
            return found
        return found / self.evaluation.speedup if self.evaluation.speedup else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemReport:
    """One line of the report.

    Attributes:
        problem: The problem.
        status: "verified", "unverified", "reference" (nothing beats it), "none" (no candidate
            is correct), "skipped" or "degenerate".
        reason: Why it was skipped, given up before its end, or is degenerate; else "".
        best: The best of its archive, or None.
        num_cells: Occupied cells of its archive, over all islands.
        baseline: What torch reached on it in each setting; empty: no baseline is known.
        light: Its bounds by the datasheet; None: not known.
    """

    problem: Problem
    status: str
    reason: str = ""
    best: Best | None = None
    num_cells: int = 0
    baseline: tuple[Setting, ...] = ()
    light: Light | None = None

    @property
    def counts(self) -> bool:
        """True where the problem is part of the figures; degenerate ones are left out."""
        return self.status != "degenerate"

    @property
    def speedup(self) -> float | None:
        """Speedup against the reference at torch's defaults."""
        return None if self.best is None else self.best.speedup

    @property
    def speedup_low(self) -> float | None:
        """Lower end of the 99 % interval of `speedup`."""
        if self.best is None or self.best.evaluation.interval is None:
            return None
        return 1.0 if self.best.is_reference else self.best.evaluation.interval.low

    @property
    def matched_speedup(self) -> float | None:
        """Speedup against the fastest torch setting that is no less accurate."""
        if self.best is None:
            return None
        if self.baseline:
            error = self.best.evaluation.error
            return matched_speedup(self.best.speedup, error, self.baseline)
        return 1.0 if self.best.is_reference else self.best.evaluation.matched_speedup

    @property
    def roofline_share(self) -> float | None:
        """Ceiling time over measured time of the best; None where it is not known."""
        return None if self.best is None else self.best.evaluation.roofline_share

    @property
    def light_says(self) -> str:
        """What is suspicious of the best one's time by the roofline, in a sentence; else ""."""
        return "" if self.best is None else told_in(self.best.evaluation.log)

    @property
    def cap(self) -> float | None:
        """The speedup of a kernel at the device's ceiling; None where that is not known."""
        share = self.roofline_share
        return self.best.speedup / share if self.best is not None and share else None

    @property
    def bytes_share(self) -> float | None:
        """Time of the least bytes at the datasheet's bandwidth over that of the best.

        None where memory is not what bounds the problem, or where either time is not known.
        """
        if self.light is None or self.light.bound != "memory" or self.best is None:
            return None
        latency_ms = self.best.evaluation.latency_ms
        return None if latency_ms is None else self.light.memory_ms / latency_ms

    @property
    def over_best_of_torch(self) -> float | None:
        """Speedup against the fastest of eager, compiled and autotuned torch at its defaults."""
        speedup = None if self.best is None else self.best.speedup
        return None if speedup is None else speedup_over_best(speedup, self.baseline)

    @property
    def knows_torch(self) -> bool:
        """True where eager, compiled and autotuned torch are in the baseline."""
        return speedup_over_best(1.0, self.baseline) is not None

    def speedup_over(self, setting: str) -> float | None:
        """Return the speedup against a setting of the baseline, such as "compile"."""
        return (
            None if self.best is None else speedup_over(setting, self.best.speedup, self.baseline)
        )


def best_of(store: Store, problem: Problem) -> Best | None:
    """Return the best candidate of a problem's archive, over all islands.

    One candidate stands for a problem in every column of a report and in an export. It is chosen
    by what the run climbed by: the matched speedup where the run had a baseline. Another elite
    may be faster by the standard one, at a lower accuracy; the archive shows it.

    A candidate that was verified to beat torch goes before all others, whatever the search
    measured of those; among equals the better one goes first. None where no candidate is correct.

    Raises:
        StoreError: The store cannot be read.
    """
    reference = Candidate.of(problem.key, reference_as_candidate(problem)).id
    counting = store.elite_evaluations(problem.key)
    by_matched = _climbed_by_matched(store, problem.key, counting)
    elites = [
        Best(
            candidate=candidate,
            evaluation=evaluation,
            is_reference=candidate == reference,
            by_matched=by_matched,
        )
        for candidate, evaluation in counting.items()
    ]
    verified = [each for each in elites if each.is_verified and each.objective_speedup > 1.0]
    return min(
        verified or elites,
        key=lambda each: (-each.objective_speedup, each.candidate),
        default=None,
    )


def _climbed_by_matched(store: Store, problem_key: str, counting: Mapping[str, Evaluation]) -> bool:
    """Tell from the objectives of the elites what they were ranked by.

    Runs on GPUs of earlier versions kept matched speedups, and ranked by those over torch's
    defaults.
    """
    for elite in store.elites(problem_key):
        known = counting.get(elite.candidate)
        if known is None or known.matched_speedup in (None, known.speedup):
            continue  # It would have had the same objective either way.
        verdicts = [
            record.evaluation
            for record in store.evaluations(problem_key, elite.candidate)
            if record.slot is not None and record.evaluation.status is Status.OK
        ]
        standard = any(_is_objective(elite.objective, one.speedup) for one in verdicts)
        matched = any(_is_objective(elite.objective, one.matched_speedup) for one in verdicts)
        if standard != matched:
            return matched
    return True


def _is_objective(objective: float, speedup: float | None) -> bool:
    return speedup is not None and math.isclose(objective, math.log(speedup), abs_tol=1e-9)
