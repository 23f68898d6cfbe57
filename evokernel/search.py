"""The state of the search on one problem, and how it is rebuilt from a store's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.configuration import Configuration, read_configuration, with_configuration
from archives.evaluation import Status
from archives.records import GenerationOutcome
from archives.store import Store
from evokernel.config import RunConfig
from evokernel.feats import Feats
from evokernel.population import MIGRATE, Population
from evokernel.register import Child, Register, judged
from evokernel.setbacks import Setbacks
from evokernel.streams import Streams
from problems.graph import OperatorGraph
from problems.lifted import Lifted
from problems.problem import Problem

__all__ = ["Draft", "ProblemSearch", "at_point", "recover"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A proposal on its way to its verdict.

    Attributes:
        attempt: The attempt.
        candidate: The proposed candidate; None where the operator had none.
        configurations: Points to try; empty: the one in the candidate's source.
    """

    attempt: Attempt
    candidate: Candidate | None
    configurations: tuple[Configuration, ...] = ()


@dataclass(slots=True, kw_only=True)
class ProblemSearch:
    """The search on one problem.

    Attributes:
        problem: The problem.
        index: Its place in the run, from 0.
        population: Islands and archive.
        register: What was proposed.
        streams: Random streams.
        graph: What the reference does; None where it could not be traced, or not yet.
        lifted: What Inductor wrote for the reference; empty where nobody asked.
        reached: Last finished generation; -1: none.
        attempts: The attempts of the generation in progress that are recorded.
        recorded: Rows of the generation in progress: a resumed run takes them up.
        setbacks: What failed in finished generations.
        feats: The configurations that won in finished generations.
        missing: What could not be found out, such as "graph"; it is not asked for again.
        closed: Why the search is over before its last generation; "" while it goes on.
    """

    problem: Problem
    index: int
    population: Population
    register: Register
    streams: Streams
    graph: OperatorGraph | None = None
    lifted: tuple[Lifted, ...] = ()
    reached: int = -1
    attempts: list[Attempt] = field(default_factory=list)
    recorded: dict[Slot, Draft] = field(default_factory=dict)
    setbacks: Setbacks = field(default_factory=Setbacks)
    feats: Feats = field(default_factory=Feats)
    missing: set[str] = field(default_factory=set)
    closed: str = ""

    @classmethod
    def begin(cls, problem: Problem, index: int, config: RunConfig) -> ProblemSearch:
        """Start the search on a problem."""
        streams = Streams(config.rng_seed, index)
        return cls(
            problem=problem,
            index=index,
            population=Population(problem, config, streams),
            register=Register(),
            streams=streams,
        )

    @property
    def num_outstanding(self) -> int:
        """Recorded proposals of an interrupted generation that have no verdict yet."""
        return sum(draft.attempt.state is AttemptState.PROPOSED for draft in self.recorded.values())

    def children(self, attempts: Sequence[Attempt]) -> list[Child]:
        """Return the children of attempts in slot order, duplicates with their verdicts."""
        return [self._child(attempt) for attempt in sorted(attempts, key=lambda a: a.slot)]

    def close_generation(self, generation: int) -> GenerationOutcome:
        """Offer the children of the generation in progress to the islands, in slot order."""
        children = self.children(self.attempts)
        self.register.close(children)
        self.setbacks.add(children)
        self.feats.close(generation, children)
        outcome = self.population.close(generation, children)
        self.reached = generation
        self.attempts = []
        self.recorded = {}
        return outcome

    def _child(self, attempt: Attempt) -> Child:
        earlier = attempt.duplicate_of
        original = self.register.child(earlier or attempt.slot)
        # What two islands propose in one generation is offered to the first of them alone: it
        # must not matter whether its verdict was there when the second one was recorded.
        is_twin = earlier is not None and earlier.generation == attempt.slot.generation
        if original is None or is_twin:
            return Child(attempt=attempt)
        return Child(
            attempt=attempt,
            program=original.program,
            result=original.result,
            evaluation=original.evaluation,
        )


def recover(search: ProblemSearch, store: Store) -> None:
    """Bring a fresh search to where the store's rows are.

    Finished generations are replayed through `Population.close`, which is a pure function of
    their rows and of what was withdrawn before them; the rows of an unfinished one are kept for
    the engine to take up.
    """
    key = search.problem.key
    reached = store.generation_reached(key)
    rows: dict[int, list[Attempt]] = {}
    for attempt in store.attempts(key):
        if attempt.operator != MIGRATE:
            rows.setdefault(attempt.slot.generation, []).append(attempt)
    everything = [attempt for group in rows.values() for attempt in group]
    _restore_register(search, store, everything, -1 if reached is None else reached)
    fallen = _withdrawals(search, store)
    for generation in range(0 if reached is None else reached + 1):
        search.attempts = rows.get(generation, [])
        search.close_generation(generation)
        for candidate in fallen.pop(generation, ()):
            search.population.withdraw(candidate)
    for candidate in (candidate for late in fallen.values() for candidate in late):
        search.population.withdraw(candidate)
    for attempt in rows.get(search.reached + 1, []):
        search.recorded[attempt.slot] = _draft(attempt, search, store)


def _restore_register(
    search: ProblemSearch, store: Store, attempts: Sequence[Attempt], reached: int
) -> None:
    key = search.problem.key
    programs = {known.id: known.program_id for known in store.known(key).values()}
    verdicts = {record.slot: record for record in store.evaluations(key) if record.slot is not None}
    for attempt in attempts:
        if attempt.candidate is None or attempt.duplicate_of is not None:
            continue
        record = verdicts.get(attempt.slot)
        if record is None and attempt.state is AttemptState.FAILED:
            continue  # The evaluator failed: its points are free to be tried again.
        candidate = store.candidate(attempt.candidate, key)
        points = store.configurations(attempt.slot) or (read_configuration(candidate.source),)
        if record is not None and attempt.slot.generation <= reached:
            # The end of its generation freed the others: a later attempt may have tried them.
            points = judged(record.evaluation, points)
        if points:
            search.register.claim(attempt.slot, candidate, points)
        if record is not None:
            search.register.settle(
                Child(
                    attempt=attempt,
                    program=programs[attempt.candidate],
                    result=record.candidate,
                    evaluation=record.evaluation,
                )
            )


def _draft(attempt: Attempt, search: ProblemSearch, store: Store) -> Draft:
    if attempt.candidate is None:
        return Draft(attempt=attempt, candidate=None)
    return Draft(
        attempt=attempt,
        candidate=store.candidate(attempt.candidate, search.problem.key),
        configurations=store.configurations(attempt.slot),
    )


def _withdrawals(search: ProblemSearch, store: Store) -> dict[int, list[str]]:
    """What was withdrawn, in order, by the last generation that was finished before.

    A problem is verified between its generations alone. What failed just before the run was
    killed is withdrawn in the store now.
    """
    key = search.problem.key
    known = store.known(key)
    withdrawn = {candidate.id for candidate in known.values() if candidate.withdrawn}
    fallen: dict[int, list[str]] = {}
    seen: set[str] = set()
    latest = 0
    for record in store.evaluations(key):
        if record.slot is not None:
            latest = max(latest, record.slot.generation)
        elif record.evaluation.status not in (Status.OK, Status.UNSTABLE):
            if record.candidate not in withdrawn | seen:
                store.withdraw(key, record.candidate, record.evaluation.reason)
            if record.candidate not in seen:
                finished = latest if record.after is None else record.after
                fallen.setdefault(finished, []).append(record.candidate)
                seen.add(record.candidate)
    # Whatever was withdrawn without a verdict of its own was so after everything else.
    fallen.setdefault(latest, []).extend(sorted(withdrawn - seen))
    return fallen


def at_point(source: str, point: Configuration | None) -> str:
    """Return a program's text standing at a point; as it is where it has no `CONFIG`."""
    if point is None:
        return source
    present = read_configuration(source)
    if not present or dict(present) == dict(point):
        return source
    return with_configuration(source, point)
