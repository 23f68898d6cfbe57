"""What is reported of one problem: the best of its archive, held against all that is known.

What is reported of an elite is its latest verification; where a run has not verified yet, the
number of the search stands in, and is marked as unverified.
"""

from __future__ import annotations

from dataclasses import dataclass

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Rung
from archives.store import Store
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
    """

    candidate: str
    evaluation: Evaluation
    is_reference: bool

    @property
    def is_verified(self) -> bool:
        """True where it was verified in fresh processes."""
        return self.evaluation.rung >= Rung.VERIFY

    @property
    def speedup(self) -> float:
        """Speedup; 1 by definition for the reference itself."""
        return 1.0 if self.is_reference else self.evaluation.speedup or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemReport:
    """One line of the report.

    Attributes:
        problem: The problem.
        status: "verified", "unverified", "reference" (nothing beats it), "none" (no candidate
            is correct), "skipped" or "degenerate".
        reason: Why it was skipped or is degenerate; else "".
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

    A candidate that was verified to beat the reference goes before all others, whatever the
    search measured of those; among equals the faster one goes first. None where no candidate is
    correct.

    Raises:
        StoreError: The store cannot be read.
    """
    reference = Candidate.of(problem.key, reference_as_candidate(problem)).id
    speedups = store.speedups(problem.key)
    held = {elite.candidate for elite in store.elites(problem.key)} & speedups.keys()
    best: Best | None = None
    for candidate in sorted(held, key=lambda each: (-speedups[each], each)):
        if best is not None and best.speedup >= 1.0 >= speedups[candidate]:
            break
        evaluation = store.evaluation(problem.key, candidate)
        assert evaluation is not None, "what has a speedup has an evaluation"
        found = Best(
            candidate=candidate, evaluation=evaluation, is_reference=candidate == reference
        )
        if found.is_verified and found.speedup > 1.0:
            return found
        if best is None or found.speedup > best.speedup:
            best = found
    return best
