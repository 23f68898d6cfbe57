"""A candidate's way up the ladder: screen, build, check, time, verify.

The highest rung passed is noted in the findings; the first rung that fails raises
`CandidateFailed`, from which the referee makes the verdict.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, TypeVar

from archives.configuration import Configuration, with_configuration
from archives.evaluation import KernelFacts, Rung, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.processes import remove_folder
from evaluator.referee.arena import Arena, Process
from evaluator.referee.effort import SEARCH_EFFORT, VERIFY_EFFORT, VERIFY_PROCESSES, Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.screen import screen
from evaluator.referee.timing import Block, Ratio, estimate
from evaluator.referee.verdict import Findings, facts_of

__all__ = ["climb", "require_screened"]

P = TypeVar("P", bound=Process)
CENSUS_CALLS = 3
MAX_CRASHES = 3
"""Configurations of one program that may take their process with them before it is given up."""


def require_screened(source: str, findings: Findings) -> None:
    """First rung: the rules over the syntax tree."""
    finding = screen(source)
    if finding is not None:
        raise CandidateFailed(Status.SCREENED, finding.reason, finding.log)
    findings.rung = Rung.SCREEN


def climb(arena: Arena[P], request: EvaluationRequest, findings: Findings) -> tuple[Ratio, int]:
    """Take a screened candidate up the other rungs.

    Args:
        arena: The problem on its device; its check sets were drawn after the source was frozen or
            are unknown to its author.
        request: The candidate.
        findings: Filled on the way.

    Returns:
        Its time against the reference's, and the number of its best configuration.

    Raises:
        CandidateFailed: A rung was not passed.
    """
    sources = _sources(request, findings)
    with ExitStack() as held:
        build = arena.build_folder()
        held.callback(remove_folder, build)
        trial = _Trial(arena, build, findings)
        held.callback(trial.close)
        right = trial.build_and_check(sources)
        verify = request.purpose is Purpose.VERIFY
        effort = VERIFY_EFFORT if verify else SEARCH_EFFORT
        with arena.gate.exclusive():
            winner, blocks = trial.time(sources, right, effort, fresh=verify)
            for _ in range(VERIFY_PROCESSES - 1 if verify else 0):
                blocks += trial.time(sources, [winner], effort, fresh=True)[1]
        trial.require_unchanged()
        findings.rung = Rung.TIME
        ratio = _settled(blocks, effort)
        if verify:
            findings.rung = Rung.VERIFY
        findings.facts = trial.census(winner)
        return ratio, winner


def _sources(request: EvaluationRequest, findings: Findings) -> list[str]:
    """The program's text with each configuration written in."""
    source = request.candidate.source
    if not request.configurations:
        findings.points = (None,)
        return [source]
    points: tuple[Configuration, ...] = request.configurations
    findings.points = points
    try:
        return [with_configuration(source, point) for point in points]
    except ValueError as error:
        raise CandidateFailed(Status.BUILD_ERROR, "no_configuration", str(error)) from error


def _settled(blocks: Sequence[Block], effort: Effort) -> Ratio:
    ratio = estimate(blocks)
    if ratio.width > effort.max_width:
        low, high = ratio.interval.low, ratio.interval.high
        raise host_noisy(f"the speedup is between {low:.3g} and {high:.3g}")
    return ratio


class _Trial(Generic[P]):
    """One candidate's processes and build folder."""

    def __init__(self, arena: Arena[P], build: Path, findings: Findings) -> None:
        self._arena = arena
        self._build = build
        self._findings = findings
        self._builder: P | None = None
        self._opened: set[int] = set()
        self._timed: list[P] = []
        self._hidden_weights = True

    def build_and_check(self, sources: Sequence[str]) -> list[int]:
        """Build and check each configuration; return the numbers of those that are right."""
        right: list[int] = []
        failures: list[tuple[Rung, CandidateFailed]] = []
        crashes = 0
        self._arena.prepare(self._build, sources)
        for number, source in enumerate(sources):
            rung = Rung.SCREEN
            try:
                builder = self._living_builder()
                builder.open(number, source)
                self._opened.add(number)
                rung = Rung.BUILD
                accuracy = self._arena.check(builder, number)
            except CandidateFailed as failure:
                self._findings.outcomes[number] = failure.status
                failures.append((rung, failure))
                crashes += not self._builder_lives()
                if crashes >= MAX_CRASHES:
                    break
                continue
            right.append(number)
            self._findings.outcomes[number] = Status.OK
            self._findings.error = max(self._findings.error or 0.0, accuracy.error)
            self._findings.error_bound = accuracy.bound
            self._hidden_weights = self._hidden_weights and accuracy.hidden_weights
        if not right:
            furthest = max(failures, key=lambda pair: pair[0])
            self._findings.rung = furthest[0]
            raise furthest[1]
        self._findings.rung = Rung.CHECK
        if self._builder is not None:
            self._builder.stop()
        return right

    def time(
        self, sources: Sequence[str], numbers: Sequence[int], effort: Effort, *, fresh: bool
    ) -> tuple[int, list[Block]]:
        """Time configurations, in a fresh process where asked; return the best and its blocks.

        The process is left halted for `require_unchanged`, since what it costs to look at it and
        to end it should not keep the gate.
        """
        if fresh or not self._arena.one_process:
            # Forked under the gate: its first milliseconds are spent on the core that is timed.
            process = self._arena.process(self._build, timed=True)
            self._timed.append(process)
            opened: set[int] = set()
        else:
            process, opened = self._living_builder(), self._opened
        for number in numbers:
            self._open(process, sources, number, opened)
        with self._arena.weights(hidden=self._hidden_weights):
            watch = self._arena.watch(process)
            winner, latencies = watch.race(numbers)
            self._findings.latencies.update(latencies)
            process.require_idle()
            blocks = watch.blocks(winner, latencies[winner], effort)
            self._findings.latencies[winner] = estimate(blocks).latency_ms
            process.require_idle()
        process.stop()
        return winner, blocks

    def require_unchanged(self) -> None:
        """Fail a candidate that wrote to its inputs, or had its builder help, while timed."""
        if self._builder is not None and self._builder not in self._timed:
            self._builder.stop()
        for process in self._timed:
            process.require_inputs_unchanged()

    def census(self, winner: int) -> KernelFacts:
        """Take facts about the winner's kernels; none where it does not answer."""
        try:
            return facts_of(self._arena.census(self._living_builder(), winner, CENSUS_CALLS))
        except CandidateFailed:
            return KernelFacts()

    def close(self) -> None:
        """End every process, also where ending one of them fails."""
        with ExitStack() as held:
            for process in (*self._timed, self._builder):
                if process is not None:
                    held.callback(process.end)

    def _open(
        self, process: P, sources: Sequence[str], number: int, opened: Container[int]
    ) -> None:
        """Open a configuration with the hidden weights where it can take them."""
        if number not in opened:
            process.open(number, sources[number])
        if self._hidden_weights:
            self._arena.load_hidden(process, number)

    def _living_builder(self) -> P:
        if self._builder is None:
            self._builder = self._arena.process(self._build, timed=False)
            self._opened.clear()
            self._findings.isolation = self._builder.isolation
        return self._builder

    def _builder_lives(self) -> bool:
        """Whether the building process is still there; what is left of a dead one is ended."""
        if self._builder is not None and self._builder.alive:
            return True
        if self._builder is not None:
            self._builder.end()
            self._builder = None
        return False
