"""The report of a run: what was reached on each problem, and by which operators.

Read from the store alone, so that it works during a run, after it, and on another machine. What
is reported of an elite is its latest verification; where a run has not verified yet, the number
of the search stands in, is marked as unverified, and is never sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from archives.records import OperatorTally, ProblemStatus, RunCounts
from archives.store import Store
from evokernel.baselines import Baseline, check_device
from evokernel.fast_p import Score, Summary, summarise
from evokernel.groups import LibraryPolicy
from evokernel.library import policy_of
from evokernel.lights import light_on
from evokernel.matching import kept_baseline
from evokernel.problem_report import Best, ProblemReport, best_of
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
        matched: Figures against the fastest eager setting that is no less accurate, over the
            problems of which it is known; None where it is known of no result.
        over_best: Figures against the fastest of eager, compiled and autotuned torch, over the
            problems of which all three are known; None where there are none.
        baseline: The baseline of the matched and compiled speedups; None: there is none.
        rates: What the device was measured to reach; None: it was not measured.
        library: What library work was worth: under "allow" the figures count it like own kernels.
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
    matched: Summary | None
    over_best: Summary | None = None
    baseline: Baseline | None = None
    rates: Rates | None = None
    library: LibraryPolicy = "mark"

    @property
    def precision(self) -> str:
        """Floating-point type of the problems: "fp32", "fp16" or "bf16"."""
        return self.problems[0].problem.precision if self.problems else "fp32"

    @property
    def counts_library(self) -> bool:
        """Whether library work counts as kernels of one's own do."""
        return self.library == "allow"

    @property
    def num_matched(self) -> int:
        """Problems that `matched` is about."""
        return len(_matchable(self.problems)) if self.matched is not None else 0

    @property
    def climbs_by_matched(self) -> bool:
        """True where the run itself ranked candidates by matched speedups."""
        bests = (line.best for line in self.problems)
        return any(
            best is not None and best.by_matched and best.evaluation.matched_speedup
            for best in bests
        )

    @property
    def num_over_best(self) -> int:
        """Problems that `over_best` is about."""
        return sum(line.counts and line.knows_torch for line in self.problems)

    @property
    def bytes_shares(self) -> tuple[float, ...]:
        """Shares of the datasheet's bandwidth, of the problems that memory bounds; ascending."""
        shares = (line.bytes_share for line in self.problems if line.counts)
        return tuple(sorted(share for share in shares if share is not None))

    def count(self, status: str) -> int:
        """Return the number of problems with a status."""
        return sum(problem.status == status for problem in self.problems)


def read_report(store: Store, baseline: Baseline | None = None) -> Report:
    """Read the report of a run from its store.

    Args:
        store: The run's.
        baseline: What torch reached on the run's device, for matched and compiled speedups;
            None: what the run keeps, if anything.

    Raises:
        StoreError: The store cannot be read.
        ConfigError: The baseline was measured on another device or with other versions, or the
            run's policy on library work is not known here.
    """
    run = store.run()
    if baseline is None:
        baseline = kept_baseline(store.folder)
    if baseline is not None and run.device is not None:
        check_device(baseline, run.device)
    skipped = {
        state.key: state.reason
        for state in store.problem_states()
        if state.status is ProblemStatus.SKIPPED
    }
    lines = tuple(
        _line(store, problem, skipped, baseline, run.device) for problem in store.problems()
    )
    counted = [line for line in lines if line.counts]
    known = [score_of(line, line.over_best_of_torch) for line in counted if line.knows_torch]
    matchable = _matchable(counted)
    matched = [score_of(line, line.matched_speedup) for line in matchable]
    is_matched = any(line.matched_speedup is not None for line in matchable)
    noise_floor, library = run.noise_floor or 0.0, policy_of(store)
    figures = partial(summarise, noise_floor=noise_floor, counts_library=library == "allow")
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
        standard=figures([score_of(line, line.speedup) for line in counted]),
        matched=figures(matched) if is_matched else None,
        over_best=figures(known) if known else None,
        baseline=baseline,
        rates=run.rates,
        library=library,
    )


def _line(
    store: Store,
    problem: Problem,
    skipped: dict[str, str],
    baseline: Baseline | None,
    device: DeviceFingerprint | None,
) -> ProblemReport:
    if problem.degenerate is not None:
        return ProblemReport(problem=problem, status="degenerate", reason=problem.degenerate)
    known = None if baseline is None else baseline.of(problem)
    settings = () if known is None else known.settings
    best = best_of(store, problem)
    if problem.key in skipped and (best is None or best.is_reference):
        return ProblemReport(
            problem=problem, status="skipped", reason=skipped[problem.key], baseline=settings
        )
    if best is None:
        status = "none"
    elif best.is_reference:
        status = "reference"
    else:
        status = "verified" if best.is_verified else "unverified"
    num_cells = len({elite.cell for elite in store.elites(problem.key)})
    return ProblemReport(
        problem=problem,
        status=status,
        reason=skipped.get(problem.key, ""),
        best=best,
        num_cells=num_cells,
        baseline=settings,
        light=light_on(device, problem, store.graph(problem.key)),
    )


def _matchable(lines: Sequence[ProblemReport]) -> list[ProblemReport]:
    """The problems that count and whose best is matched, or that have no best to match."""
    return [
        line
        for line in lines
        if line.counts and (line.best is None or line.matched_speedup is not None)
    ]


def _measured_by(lines: Sequence[ProblemReport]) -> str:
    """Version of the protocol that the numbers themselves state; "" where there are none."""
    versions = (line.best.evaluation.referee_version for line in lines if line.best is not None)
    return next((version for version in versions if version), "")


def score_of(line: ProblemReport, speedup: float | None) -> Score:
    """Return the score for a baseline; its interval is the standard one, scaled alike."""
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
