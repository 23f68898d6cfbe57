"""A candidate's way up the ladder: screen, build, check, time, verify.

The highest rung passed is noted in the findings; the first rung that fails raises
`CandidateFailed`, from which the referee makes the verdict.

Of several configurations each is looked at on one secret set, and those that pass race. The fastest
meets every set, and where it fails there, the next one does: only what passed all is timed in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Generic, TypeVar

from archives.configuration import Configuration, with_configuration
from archives.evaluation import KernelFacts, Rung, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.processes import remove_folder
from evaluator.referee.arena import Arena, Process
from evaluator.referee.effort import SEARCH_EFFORT, VERIFY_PROCESSES, Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.screen import screen
from evaluator.referee.timing import Block, Ratio, estimate, estimate_together
from evaluator.referee.verdict import Findings, facts_of

__all__ = ["climb", "require_screened"]

P = TypeVar("P", bound=Process)
CENSUS_CALLS = 3
MAX_CRASHES = 3
"""Configurations of one program that may take their process with them before it is given up."""
MAX_WRONG = 3
"""Configurations that may pass the first look and fail the check before their program is given
up."""


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
        trial = _Trial(arena, build, sources, findings)
        held.callback(trial.close)
        winner = trial.check(trial.look(trial.build()))
        verify = request.purpose is Purpose.VERIFY
        effort = arena.verify_effort if verify else SEARCH_EFFORT
        timed = [
            trial.time(winner, effort, fresh=verify)
            for _ in range(VERIFY_PROCESSES if verify else 1)
        ]
        trial.require_unchanged()
        findings.rung = Rung.TIME
        ratio = _settled(timed, effort)
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


@contextmanager
def _noted(outcomes: dict[int, Status], number: int) -> Iterator[None]:
    """Note as what a configuration fails."""
    try:
        yield
    except CandidateFailed as failure:
        outcomes[number] = failure.status
        raise


@contextmanager
def _blamed(process: Process) -> Iterator[None]:
    """Where timing was too noisy for a number, tell a candidate that made the noise from a host."""
    try:
        yield
    except CandidateFailed as failure:
        if failure.status is Status.UNSTABLE and process.alive:
            process.require_idle()
        raise


def _settled(timed: Sequence[Sequence[Block]], effort: Effort) -> Ratio:
    """What the processes say together, or that the host is too noisy."""
    ratio = estimate_together(timed)
    if ratio.width > effort.max_width:
        low, high = ratio.interval.low, ratio.interval.high
        raise host_noisy(f"the speedup is between {low:.3g} and {high:.3g}")
    return ratio


def _in_time(
    numbers: Iterable[int], limit_s: float, outcomes: Mapping[int, Status]
) -> Iterator[int]:
    """Yield configurations to build; when time is over, until one of them could be built."""
    until = perf_counter() + limit_s
    for number in numbers:
        if perf_counter() > until and Status.OK in outcomes.values():
            return
        yield number


class _Trial(Generic[P]):
    """One candidate's processes and build folder; configurations go by their numbers."""

    def __init__(
        self, arena: Arena[P], build: Path, sources: Sequence[str], findings: Findings
    ) -> None:
        self._arena = arena
        self._build = build
        self._sources = sources
        self._findings = findings
        self._builder: P | None = None
        self._opened: set[int] = set()
        self._runner: P | None = None
        self._run: set[int] = set()
        self._timed: list[P] = []
        self._hidden_weights = True

    def build(self) -> list[int]:
        """Build every configuration; return those that could be, and were in time."""
        self._arena.prepare(self._build, self._sources)
        numbers = range(len(self._sources))
        in_time = _in_time(numbers, self._arena.builds_s, self._findings.outcomes)
        return self._passing(in_time, Rung.SCREEN, lambda builder, number: None)

    def look(self, built: list[int]) -> list[int]:
        """Look at several configurations on one set; return those that pass, the fastest first."""
        if len(built) == 1:
            return built
        for number in built:
            # Who is not looked at, since others took too many processes with them, has no verdict.
            del self._findings.outcomes[number]
        right = self._passing(built, Rung.BUILD, self._arena.look)
        return right if len(right) == 1 else self._raced(right)

    def check(self, ranked: Sequence[int]) -> int:
        """Check configurations on every set, in order; return the first that is right."""
        winner = self._passing(ranked, Rung.BUILD, self._accurate, enough=1, most_wrong=MAX_WRONG)
        self._findings.rung = Rung.CHECK
        if self._builder is not None:
            self._builder.stop()
        return winner[0]

    def time(self, number: int, effort: Effort, *, fresh: bool) -> list[Block]:
        """Time a configuration under the gate, in a fresh process where asked.

        The process is left halted for `require_unchanged`, since what it costs to look at it and
        to end it should not keep the gate; but where memory is scarce a fresh one is ended.
        """
        with _noted(self._findings.outcomes, number), self._arena.timing():
            with self._on_the_clock([number], fresh=fresh, hidden=self._hidden_weights) as process:
                blocks = self._blocks(process, number, effort)
            if fresh and self._arena.one_process:
                self._end(process)
        return blocks

    def require_unchanged(self) -> None:
        """Fail a candidate that wrote to its inputs, or had its builder help, while timed."""
        if self._builder is not None and self._builder not in self._timed:
            self._builder.stop()
        for process in self._timed:
            process.require_inputs_unchanged()

    def census(self, winner: int) -> KernelFacts:
        """Take facts about the winner's kernels; none where it does not answer."""
        try:
            builder = self._living_builder()
            self._open(builder, winner, self._opened)
            return facts_of(self._arena.census(builder, winner, CENSUS_CALLS))
        except CandidateFailed:
            return KernelFacts()

    def close(self) -> None:
        """End every process, also where ending one of them fails."""
        with ExitStack() as held:
            for process in (*self._timed, self._builder):
                if process is not None:
                    held.callback(process.end)

    def _passing(
        self,
        numbers: Iterable[int],
        passed: Rung,
        require: Callable[[P, int], object],
        *,
        enough: int | None = None,
        most_wrong: int | None = None,
    ) -> list[int]:
        """Return the configurations that open and meet a requirement; fail where none does.

        Args:
            numbers: Which are tried, in this order.
            passed: The rung that those have passed which fail the requirement.
            require: Raises `CandidateFailed` where a configuration in the builder fails.
            enough: How many to find at most; None: all.
            most_wrong: How many may fail before the rest is left alone; None: all.
        """
        right: list[int] = []
        failures: list[tuple[Rung, CandidateFailed]] = []
        crashes = 0
        for number in numbers:
            rung = Rung.SCREEN
            try:
                builder = self._living_builder()
                self._open(builder, number, self._opened)
                rung = passed
                require(builder, number)
            except CandidateFailed as failure:
                self._findings.outcomes[number] = failure.status
                failures.append((rung, failure))
                crashes += not self._builder_lives()
                if crashes >= MAX_CRASHES or len(failures) == most_wrong:
                    break
                continue
            self._findings.outcomes[number] = Status.OK
            right.append(number)
            if len(right) == enough:
                break
        if not right:
            furthest = max(failures, key=lambda pair: pair[0])
            self._findings.rung = max(self._findings.rung, furthest[0])
            raise furthest[1]
        return right

    def _accurate(self, builder: P, number: int) -> None:
        """Require a configuration to be right on every set, and note how right it is."""
        accuracy = self._arena.check(builder, number)
        self._findings.error = accuracy.error
        self._findings.error_bound = accuracy.bound
        self._hidden_weights = accuracy.hidden_weights

    def _end(self, process: P) -> None:
        """End a process that was timed, and give back the memory in which its outputs are."""
        process.require_inputs_unchanged()
        self._timed.remove(process)
        self._runner = None
        process.end()

    def _blocks(self, process: P, number: int, effort: Effort) -> list[Block]:
        """Time a configuration that a process has opened; to be called under the gate."""
        with self._arena.weights(hidden=self._hidden_weights), _blamed(process):
            watch = self._arena.watch(process)
            if number not in self._findings.latencies:
                self._findings.latencies.update(watch.race([number])[1])
            blocks = watch.blocks(number, self._findings.latencies[number], effort)
            self._findings.latencies[number] = estimate(blocks).latency_ms
            process.require_idle()
        process.stop()
        return blocks

    def _raced(self, numbers: Sequence[int]) -> list[int]:
        """Race configurations; return those that come through, the fastest first."""
        try:
            return self._race(numbers)
        except CandidateFailed:
            # One of them failed, which passed its look: that is told by racing each by itself.
            failures: list[CandidateFailed] = []
            times = self._findings.latencies
            for number in numbers:
                try:
                    self._race([number])
                except CandidateFailed as failure:
                    self._findings.outcomes[number] = failure.status
                    failures.append(failure)
                    times.pop(number, None)
                    if len(failures) >= MAX_CRASHES:
                        break
            through = [number for number in numbers if number in times]
            if not through:
                raise failures[-1] from None
            return sorted(through, key=lambda number: times[number])

    @contextmanager
    def _on_the_clock(
        self, numbers: Sequence[int], *, fresh: bool, hidden: bool = False
    ) -> Iterator[P]:
        """Yield a halted process that has opened configurations, under the gate.

        A CPU's is forked under the gate as well: its first milliseconds are spent on the core that
        is timed. A GPU's is made ready before: who waits for memory must not keep others from
        ending.
        """
        one_process, gate = self._arena.one_process, self._arena.gate
        with ExitStack() as held:
            if not one_process:
                held.enter_context(gate.exclusive())
            process, opened = self._timed_process(fresh=fresh)
            for number in numbers:
                self._open(process, number, opened)
                if hidden:
                    self._arena.load_hidden(process, number)
            self._arena.furnish(process)
            process.stop()
            if one_process:
                held.enter_context(gate.exclusive())
            yield process

    def _race(self, numbers: Sequence[int]) -> list[int]:
        if self._builder is not None and not self._arena.one_process:
            self._builder.stop()
        with self._arena.timing(), self._on_the_clock(numbers, fresh=False) as process:
            winner, latencies = self._arena.watch(process).race(numbers)
            process.require_idle()
            process.stop()
        self._findings.latencies.update(latencies)
        return [winner, *sorted(latencies.keys() - {winner}, key=lambda at: latencies[at])]

    def _timed_process(self, *, fresh: bool) -> tuple[P, set[int]]:
        """The process that is timed, and what it has opened."""
        if self._arena.one_process and not fresh:
            self._builder_lives()
            return self._living_builder(), self._opened
        if self._runner is not None and not self._runner.alive:
            self._timed.remove(self._runner)
            self._runner.end()
            self._runner = None
        if fresh or self._runner is None:
            self._runner, self._run = self._arena.process(self._build, timed=True), set()
            self._timed.append(self._runner)
        else:
            # It was halted while others were checked.
            self._runner.resume()
        return self._runner, self._run

    def _open(self, process: P, number: int, opened: set[int]) -> None:
        """Open a configuration that the process has not opened yet."""
        if number not in opened:
            process.open(number, self._sources[number])
            opened.add(number)

    def _living_builder(self) -> P:
        if self._builder is None:
            self._builder = self._arena.process(self._build, timed=False)
            self._opened = set()
            self._findings.isolation = self._builder.isolation
        else:
            # It was halted while others were timed.
            self._builder.resume()
        return self._builder

    def _builder_lives(self) -> bool:
        """Whether the building process is still there; what is left of a dead one is ended."""
        if self._builder is not None and self._builder.alive:
            return True
        if self._builder is not None:
            self._builder.end()
            self._builder = None
        return False
