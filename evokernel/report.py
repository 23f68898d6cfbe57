"""The report of a run: what was reached on each problem, and by which operators.

Read from the store alone, so that it works during a run, after it, and on another machine. What
is reported of an elite is its latest verification; where a run has not verified yet, the number
of the search stands in, is marked as unverified, and is never sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint, Evaluation, Rung
from archives.records import OperatorTally, ProblemStatus, RunCounts
from archives.store import Store
from evokernel.baselines import (
    Baseline,
    Setting,
    check_device,
    matched_speedup,
    speedup_over,
)
from evokernel.fast_p import Score, Summary, summarise
from operators.seeds import reference_as_candidate
from problems.problem import Problem

__all__ = [
    "Best",
    "OperatorReport",
    "ProblemReport",
    "Report",
    "best_of",
    "read_report",
]


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
        baseline: What torch reached on it in each setting; empty: no baseline was given.
    """

    problem: Problem
    status: str
    reason: str = ""
    best: Best | None = None
    num_cells: int = 0
    baseline: tuple[Setting, ...] = ()

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

    def speedup_over(self, setting: str) -> float | None:
        """Return the speedup against a setting of the baseline, such as "compile"."""
        return (
            None if self.best is None else speedup_over(setting, self.best.speedup, self.baseline)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorReport:
    """What one operator brought to the run.

    Attributes:
        operator: Its name.
        attempts: Proposals, failed ones and duplicates included.
        evaluated: Proposals that were measured.
        accepted: Children that entered a grid.
        gain: Sum of the logarithmic improvements it brought to the archive.
        cost_s: Seconds of proposing and evaluating.
    """

    operator: str
    attempts: int
    evaluated: int
    accepted: int
    gain: float
    cost_s: float

    @property
    def credit(self) -> float | None:
        """Logarithmic gain per second; None where it cost nothing."""
        return self.gain / self.cost_s if self.cost_s > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is reported of a run.

    Attributes:
        name: Name of the run.
        state: "running", "stopped" or "finished".
        scale: Scale of the problems.
        device: Where it was measured; None before the first measurement.
        noise_floor: Relative speedup below which nothing is claimed.
        noisy: True where the host was too noisy to measure the floor, which is an assumed one.
        referee_version: Version of the measuring protocol.
        counts: How much was done.
        problems: One line for each problem, in order.
        operators: One line for each operator, by name.
        standard: Figures against the reference at torch's defaults.
        matched: Figures against the fastest torch setting that is no less accurate.
        baseline: The baseline that was given; None: `matched` rests on the run alone.
    """

    name: str
    state: str
    scale: str
    device: DeviceFingerprint | None
    noise_floor: float
    noisy: bool
    referee_version: str
    counts: RunCounts
    problems: tuple[ProblemReport, ...]
    operators: tuple[OperatorReport, ...]
    standard: Summary
    matched: Summary
    baseline: Baseline | None = None

    def count(self, status: str) -> int:
        """Return the number of problems with a status."""
        return sum(problem.status == status for problem in self.problems)


def read_report(store: Store, baseline: Baseline | None = None) -> Report:
    """Read the report of a run from its store.

    Args:
        store: The run's.
        baseline: What torch reached on the run's device, for matched and compiled speedups.

    Raises:
        StoreError: The store cannot be read.
        ConfigError: The baseline was measured on another device or with other versions.
    """
    run = store.run()
    if baseline is not None and run.device is not None:
        check_device(baseline, run.device)
    skipped = {
        state.key: state.reason
        for state in store.problem_states()
        if state.status is ProblemStatus.SKIPPED
    }
    lines = tuple(_line(store, problem, skipped, baseline) for problem in store.problems())
    counted = [line for line in lines if line.counts]
    noise_floor = run.noise_floor or 0.0
    return Report(
        name=run.name,
        state=run.state.value,
        scale=run.scale,
        device=run.device,
        noise_floor=noise_floor,
        noisy=run.noisy,
        referee_version=run.referee_version or _measured_by(lines),
        counts=store.counts(),
        problems=lines,
        operators=_operators(store.tallies()),
        standard=summarise([_score(line, line.speedup) for line in counted], noise_floor),
        matched=summarise([_score(line, line.matched_speedup) for line in counted], noise_floor),
        baseline=baseline,
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


def _line(
    store: Store, problem: Problem, skipped: dict[str, str], baseline: Baseline | None
) -> ProblemReport:
    if problem.degenerate is not None:
        return ProblemReport(problem=problem, status="degenerate", reason=problem.degenerate)
    if problem.key in skipped:
        return ProblemReport(problem=problem, status="skipped", reason=skipped[problem.key])
    best = best_of(store, problem)
    if best is None:
        status = "none"
    elif best.is_reference:
        status = "reference"
    else:
        status = "verified" if best.is_verified else "unverified"
    num_cells = len({elite.cell for elite in store.elites(problem.key)})
    known = None if baseline is None else baseline.of(problem)
    return ProblemReport(
        problem=problem,
        status=status,
        best=best,
        num_cells=num_cells,
        baseline=() if known is None else known.settings,
    )


def _measured_by(lines: Sequence[ProblemReport]) -> str:
    """Version of the protocol that the numbers themselves state; "" where there are none."""
    versions = (line.best.evaluation.referee_version for line in lines if line.best is not None)
    return next((version for version in versions if version), "")


def _score(line: ProblemReport, speedup: float | None) -> Score:
    """The score for a baseline; its interval is the standard one, scaled to that baseline."""
    if line.best is None or speedup is None:
        return Score()
    low, cap = line.speedup_low, line.cap
    return Score(
        speedup=speedup,
        low=low * speedup / line.best.speedup if low is not None and _is_sure(line) else None,
        own_kernel_share=line.best.evaluation.facts.own_kernel_share,
        cap=None if cap is None or not line.best.speedup else cap * speedup / line.best.speedup,
    )


def _is_sure(line: ProblemReport) -> bool:
    return line.status == "verified"


def _operators(tallies: Sequence[OperatorTally]) -> tuple[OperatorReport, ...]:
    names = sorted({tally.operator for tally in tallies})
    return tuple(
        OperatorReport(
            operator=name,
            attempts=sum(t.attempts for t in tallies if t.operator == name),
            evaluated=sum(t.evaluated for t in tallies if t.operator == name),
            accepted=sum(t.accepted for t in tallies if t.operator == name),
            gain=sum(t.gain for t in tallies if t.operator == name),
            cost_s=sum(t.cost_s for t in tallies if t.operator == name),
        )
        for name in names
    )
