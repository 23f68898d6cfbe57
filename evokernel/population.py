"""The population of one problem: its islands, its archive, and what a generation's end does.

Everything here is a pure function of the children in slot order: the same children give the same
grids, credits and migrants, whether they come from an evaluator or from a store's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from archives.attempt import Attempt, AttemptState, Slot
from archives.descriptors import axes_named, describe, dims_of
from archives.evaluation import LIBRARY_WORK, Evaluation, Status
from archives.grid import AddStatus, Elite, Grid, objective_of
from archives.records import GenerationOutcome, Insertion, OperatorTally
from evokernel.config import RunConfig
from evokernel.ensemble import Ensemble
from evokernel.island import Island
from evokernel.library import breeds
from evokernel.register import Child
from evokernel.shares import update_credits
from evokernel.streams import Streams
from problems.problem import Problem

__all__ = ["MIGRATE", "SEED", "Population", "is_final"]

MIGRATE = "migrate"
SEED = "seed"


@dataclass(slots=True)
class _Account:
    """What one operator did in one generation."""

    attempts: int = 0
    evaluated: int = 0
    accepted: int = 0
    gain: float = 0.0
    cost_s: float = 0.0


@dataclass(slots=True)
class _Books:
    """What the end of one generation writes down."""

    accounts: dict[str, _Account] = field(default_factory=dict)
    insertions: list[Insertion] = field(default_factory=list)
    migrants: list[Attempt] = field(default_factory=list)
    gained: set[int] = field(default_factory=set)
    gain_by_model: dict[str, float] = field(default_factory=dict)


class Population:
    """The islands of one problem and the cell-wise best over all of them."""

    def __init__(self, problem: Problem, config: RunConfig, streams: Streams) -> None:
        """Make empty islands.

        Args:
            problem: The problem.
            config: The run's configuration.
            streams: The problem's random streams.
        """
        self.problem = problem
        self.config = config
        self.streams = streams
        self.axes = axes_named(config.archive.axes)
        dims = dims_of(self.axes)
        pool = config.archive.pool
        self.islands = tuple(Island(index, dims, pool) for index in range(config.search.islands))
        self.archive = Grid(dims)
        self.withdrawn: set[str] = set()
        self.credits_per_s: dict[str, float] = {}
        self.retired: set[str] = {SEED}
        self.ensemble = Ensemble(
            config.llm.models, floor=config.operators.floor, memory=config.operators.memory
        )

    @property
    def evolves(self) -> bool:
        """False for independent tries, the baseline."""
        return self.config.search.mode == "evolution"

    def close(self, generation: int, children: Sequence[Child]) -> GenerationOutcome:
        """End a generation: insert, credit, and let islands rest, restart and exchange.

        Args:
            generation: From 0.
            children: All attempts of the generation but migrants, in slot order.

        Returns:
            What is to be recorded.
        """
        books = _Books()
        for child in children:
            self._insert(child, generation, books)
        attempts = [child.attempt for child in children]
        self.ensemble.close(generation, attempts, books.gain_by_model)
        tallies = self._tallies(generation, books)
        if generation > 0:
            # Generation 0 measures the reference's weakness, not an operator's strength.
            self.credits_per_s = update_credits(
                self.credits_per_s, tallies, self.config.operators.memory
            )
        if self.evolves:  # After the last generation too: a run may be given more of them.
            self._move(generation, children, books)
        return GenerationOutcome(
            insertions=tuple(books.insertions), migrants=tuple(books.migrants), tallies=tallies
        )

    def breeds(self, candidate: str, evaluation: Evaluation) -> bool:
        """Tell whether a correct candidate is one to breed from; see `evokernel.library`."""
        return breeds(self.config.evaluation.library, self.problem, candidate, evaluation)

    def withdraw(self, candidate: str) -> None:
        """Take a candidate out of every grid for good; the next best of its cells moves up."""
        self.withdrawn.add(candidate)
        for island in self.islands:
            island.withdraw(candidate)
        self.archive.withdraw(candidate)
        for island in self.islands:
            for elite in island.record.elites():
                self.archive.add(elite)

    def _insert(self, child: Child, generation: int, books: _Books) -> None:
        attempt, evaluation = child.attempt, child.evaluation
        account = books.accounts.setdefault(attempt.operator, _Account())
        account.attempts += 1
        island = self.islands[attempt.slot.island]
        if is_final(attempt):
            self.retired.add(attempt.operator)
        if evaluation is None or child.result is None or evaluation.status is Status.UNSTABLE:
            return  # A host too noisy to judge says nothing about operator or candidate.
        if attempt.duplicate_of is None:
            account.evaluated += 1
            # Seconds of proposing are left out: no replay can repeat them, and they overlap
            # with evaluations, which are what is scarce.
            account.cost_s += evaluation.cost_s
        if evaluation.status is not Status.OK:
            if attempt.duplicate_of is None and _is_repairable(evaluation):
                island.failures.append((attempt.slot, child.result))
            return
        assert evaluation.objective_speedup is not None, "OK has a speedup"
        if child.result in self.withdrawn:
            return  # Proposed once more, what was withdrawn has its old verdict, which is refuted.
        elite = Elite(
            cell=describe(evaluation.facts, self.axes),
            objective=objective_of(evaluation.objective_speedup),
            slot=attempt.slot,
            candidate=child.result,
        )
        gain = self._archive_gain(elite)
        account.gain += gain
        if attempt.model:
            before = books.gain_by_model.get(attempt.model, 0.0)
            books.gain_by_model[attempt.model] = before + gain
        is_parent = self.breeds(child.result, evaluation)
        if self._settle(island, elite, books, breeds=is_parent):
            account.accepted += 1
            if generation == 0 and is_parent:
                island.founders.append(elite)

    def _archive_gain(self, elite: Elite) -> float:
        """Add to the problem's archive; an empty cell counts as held by the reference."""
        incumbent = self.archive.elite(elite.cell)
        before = max(incumbent.objective, 0.0) if incumbent else 0.0
        self.archive.add(elite)
        return max(elite.objective - before, 0.0)

    def _settle(self, island: Island, elite: Elite, books: _Books, *, breeds: bool) -> bool:
        addition = island.add(elite, breeds=breeds)
        books.insertions.append(Insertion(elite=elite, addition=addition))
        if addition.status is AddStatus.NOT_ADDED:
            return False
        books.gained.add(island.index)
        return True

    def _tallies(self, generation: int, books: _Books) -> tuple[OperatorTally, ...]:
        return tuple(
            OperatorTally(
                problem=self.problem.key,
                generation=generation,
                operator=name,
                attempts=account.attempts,
                evaluated=account.evaluated,
                accepted=account.accepted,
                gain=account.gain,
                cost_s=account.cost_s,
            )
            for name, account in sorted(books.accounts.items())
        )

    def _move(self, generation: int, children: Sequence[Child], books: _Books) -> None:
        """Let stagnating islands change, then exchange elites around the ring.

        Source: DEAP, `deap.tools.migRing` (island i sends to island i + 1), with a grid in
        place of a list: a migrant competes for its cell and its old island keeps it too.
        """
        search = self.config.search
        restarted = {
            island.index
            for island in self.islands
            if island.rest(gained=island.index in books.gained, patience=search.stagnation)
        }
        interval = search.migration_interval
        due = interval > 0 and (generation + 1) % interval == 0
        travellers = [
            (island, self._emigrants(generation, island, due, island.index in restarted))
            for island in self.islands
        ]
        for island, elites in travellers:
            used = [c.attempt.slot.index for c in children if c.attempt.slot.island == island.index]
            first = max(used, default=-1) + 1
            for index, elite in enumerate(elites, first):
                slot = Slot(
                    problem=self.problem.key,
                    generation=generation,
                    island=island.index,
                    index=index,
                )
                books.migrants.append(_migrant(slot, elite))
                arrived = Elite(
                    cell=elite.cell,
                    objective=elite.objective,
                    slot=slot,
                    candidate=elite.candidate,
                )
                self._settle(island, arrived, books, breeds=True)

    def _emigrants(
        self, generation: int, target: Island, due: bool, restarted: bool
    ) -> list[Elite]:
        """Return what others send to an island: their best first, none that it holds already."""
        others = [island for island in self.islands if island is not target]
        left = self.islands[target.index - 1]
        sources = others if restarted else [left] if due and others else []
        rng = self.streams.migration(generation, target.index)
        held = {elite.candidate for elite in target.grid.elites()}
        chosen: list[Elite] = []
        for source in sources:
            ranked = [e for e in source.pick(rng, len(source.grid), 1.0) if e.candidate not in held]
            sent = ranked[: self.config.search.migrants]
            held |= {elite.candidate for elite in sent}
            chosen += sent
        return chosen


def is_final(attempt: Attempt) -> bool:
    """Tell whether its operator, which wants no parents, will have nothing later either."""
    has_nothing = attempt.reason.startswith("no_") or attempt.reason.endswith("_exhausted")
    return attempt.candidate is None and not attempt.parents and has_nothing


def _is_repairable(evaluation: Evaluation) -> bool:
    """Tell whether a failed candidate is a start for a repair.

    What cannot have been measured teaches nobody, and what was rejected for a library's work is
    right: there is nothing to mend.
    """
    return evaluation.status is not Status.IMPOSSIBLE and evaluation.reason != LIBRARY_WORK


def _migrant(slot: Slot, elite: Elite) -> Attempt:
    return Attempt(
        slot=slot,
        operator=MIGRATE,
        parents=(elite.slot,),
        state=AttemptState.ARCHIVED,
        candidate=elite.candidate,
        result=elite.candidate,
        note=f"from island {elite.slot.island}",
    )
