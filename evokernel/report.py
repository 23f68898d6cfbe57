"""The report of a run: what was reached on each problem, and by which operators.

Read from the store alone, so that it works during a run, after it, and on another machine. What
is reported of an elite is its latest verification; where a run has not verified yet, the number
of the search stands in, is marked as unverified, and is never sure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from problems.problem import Problem, Scale

__all__ = [
    "Best",
    "Figures",
    "OperatorReport",
    "ProblemReport",
    "Report",
    "best_of",
    "read_report",
]

LEAST_REFERENCE_US = 20.0
"""A GPU's reference that takes less says little: the lint's floor of a call, on the device itself.

At 3.4 us a launch, which an H200 was measured to take, that is six of them."""
LEAST_LAUNCHES = 2.0
"""The floor in launches, on a device or host where one takes longer than 10 us."""


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
class Figures:
    """fast_p and means over some of a run's problems.

    Attributes:
        standard: Against the reference at torch's defaults.
        matched: Against the fastest eager setting that is no less accurate, over the problems of
            which it is known; None where it is known of no result.
        num_problems: Problems that `standard` is about.
        num_matched: Problems that `matched` is about.
    """

    standard: Summary
    matched: Summary | None
    num_problems: int
    num_matched: int


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
        without_loose: The same two without the problems that are loose, of which KernelBench's
            tolerance proves nothing; None: no such problem counts.
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
    without_loose: Figures | None = None
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
    def loose(self) -> tuple[ProblemReport, ...]:
        """Problems that count though KernelBench's tolerance proves nothing of them."""
        return tuple(line for line in self.problems if line.counts and line.problem.loose)

    @property
    def short(self) -> tuple[ProblemReport, ...]:
        """Problems that count though their reference takes hardly longer than a launch."""
        found = (line for line in self.problems if line.counts)
        return tuple(one for one in found if _is_short(one.best, self.device, self.rates))

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
    found = (_line(store, problem, skipped, baseline, run.device) for problem in store.problems())
    lines = tuple(_without_short(line, run.device, run.rates) for line in found)
    counted = [line for line in lines if line.counts]
    known = [score_of(line, line.over_best_of_torch) for line in counted if line.knows_torch]
    telling = [line for line in counted if not line.problem.loose]
    noise_floor, library = run.noise_floor or 0.0, policy_of(store)
    summary = partial(summarise, noise_floor=noise_floor, counts_library=library == "allow")
    figures = _figures(counted, summary)
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
        standard=figures.standard,
        matched=figures.matched,
        without_loose=_figures(telling, summary) if len(telling) < len(counted) else None,
        over_best=summary(known) if known else None,
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


def _without_short(
    line: ProblemReport, device: DeviceFingerprint | None, rates: Rates | None
) -> ProblemReport:
    """Leave out what takes hardly longer than a launch on the very device, numbers kept.

    Reduced sizes count, as on a CPU: they are short by design, and no KernelBench numbers anyway.
    """
    reduced = line.problem.scale in (Scale.SMALL, Scale.TINY)
    if reduced or line.best is None or not _is_short(line.best, device, rates):
        return line
    took_us = 1000 * (line.best.evaluation.reference_ms or 0.0)
    reason = f"the reference takes {took_us:.0f} us, hardly more than a launch"
    return replace(line, status="degenerate", reason=reason)


def _is_short(best: Best | None, device: DeviceFingerprint | None, rates: Rates | None) -> bool:
    """Whether a GPU's reference takes hardly longer than a launch; on a CPU the lint tells."""
    if device is None or device.kind != "cuda" or best is None:
        return False
    launch_us = 0.0 if rates is None else 1000 * rates.launch_ms
    reference_ms = best.evaluation.reference_ms
    return reference_ms is not None and 1000 * reference_ms < max(
        LEAST_REFERENCE_US, LEAST_LAUNCHES * launch_us
    )


def _figures(
    lines: Sequence[ProblemReport], summary: Callable[[Sequence[Score]], Summary]
) -> Figures:
    matchable = _matchable(lines)
    matched = [score_of(line, line.matched_speedup) for line in matchable]
    is_matched = any(line.matched_speedup is not None for line in matchable)
    return Figures(
        standard=summary([score_of(line, line.speedup) for line in lines]),
        matched=summary(matched) if is_matched else None,
        num_problems=len(lines),
        num_matched=len(matchable) if is_matched else 0,
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
