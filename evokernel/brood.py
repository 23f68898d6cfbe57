"""The brood of one generation: how many children each island still wants, and in which slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from archives.attempt import Attempt, Slot
from evokernel.choosing import Wants
from evokernel.config import SearchConfig
from evokernel.ensemble import failed_models
from evokernel.knowledge import Knowledge
from evokernel.population import SEED
from evokernel.register import KnownIds
from evokernel.search import ProblemSearch
from operators.relatives import Relative

__all__ = ["Brood", "Nest"]

_TRIES_OF_MODELS = 8
"""Slots for each wanted child, where models bring none: their replies may hold no program."""


@dataclass(slots=True, kw_only=True)
class Nest:
    """The children of one island in one generation.

    Attributes:
        island: The island, from 0.
        seeds: Kernels that operators here may take: (name, source).
        num_seeds: Slots for seeds; they are the first ones.
        first: Index of the first slot after those of seeds.
        wanted: Children to be proposed, seeds not counted.
        tries: Slots for them, where no model fails.
        known: Ids that were proposed before; grows with each child.
        founders: Names of the operators that bring the first children.
        idle: Names of operators that brought nothing here, in this generation.
        spent: Those of them that have nothing more at all.
        asked: Slots used so far, those of seeds not counted.
        born: Children proposed so far.
        missed: Slots in which a model brought no child.
        is_done: Whether nobody has anything more to propose.
    """

    island: int
    seeds: Sequence[tuple[str, str]]
    num_seeds: int
    first: int
    wanted: int
    tries: int
    known: KnownIds
    founders: list[str] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)
    asked: int = 0
    born: int = 0
    missed: int = 0
    is_done: bool = False

    def next_round(self) -> Iterator[int]:
        """Take the slots of the next round: as many as children are missing, within the limit."""
        limit = min(self.tries + self.missed, max(self.tries, _TRIES_OF_MODELS * self.wanted))
        for _ in range(min(self.wanted - self.born, limit - self.asked)):
            if self.is_done:
                return
            self.asked += 1
            yield self.first + self.asked - 1

    def founder(self, index: int) -> str:
        """Return the operator whose program a slot is for; "" where that is to be chosen."""
        place = index - self.first
        return self.founders[place] if place < len(self.founders) else ""

    def able(self, operators: Mapping[str, Wants]) -> Mapping[str, Wants]:
        """Return whom to ask next: those that brought nothing only where there is nobody else."""
        left = {name: wants for name, wants in operators.items() if name not in self.spent}
        return {name: left[name] for name in left if name not in self.idle} or left

    def leave_out(self, operator: str, *, is_final: bool) -> None:
        """Take note of an operator that needs no model and brought nothing.

        Args:
            operator: Its name.
            is_final: Whether it has nothing more at all; somebody else gets its slot's try.
        """
        self.idle.add(operator)
        if is_final and operator not in self.spent:
            self.spent.add(operator)
            self.tries += 1

    def count(self, *, is_born: bool, asked_model: bool) -> None:
        """Take note of what came of a slot."""
        self.born += is_born
        self.missed += asked_model and not is_born


@dataclass(slots=True, kw_only=True)
class Brood:
    """The children of one generation.

    Attributes:
        search: The problem's search.
        generation: From 0.
        nests: One for each island.
        settled: Ids of all finished generations: what an operator that waits for a model may
            see, whatever its siblings bring meanwhile.
        knowledge: What models are told of the search.
        relatives: What was best for other problems of the family: bests before second bests, of
            each the nearest problem first.
        attempts: Those of finished rounds.
    """

    search: ProblemSearch
    generation: int
    nests: Sequence[Nest]
    settled: KnownIds
    knowledge: Knowledge
    relatives: Sequence[Relative] = ()
    attempts: list[Attempt] = field(default_factory=list)

    @classmethod
    def plan(
        cls,
        search: ProblemSearch,
        generation: int,
        arrivals: Sequence[tuple[str, str]],
        config: SearchConfig,
        knowledge: Knowledge,
    ) -> Brood:
        """Plan a generation.

        Args:
            search: The problem's search.
            generation: From 0.
            arrivals: Kernels that waited for this generation, dealt out to the islands.
            config: How many children are wanted.
            knowledge: What models are told of the search.
        """
        islands = range(len(search.population.islands))
        if generation == 0:
            nests = _first_nests(search, arrivals, islands, config.initial)
        else:
            wanted = config.proposals if generation <= config.generations else 0
            nests = _later_nests(search, arrivals, islands, wanted)
        return cls(
            search=search,
            generation=generation,
            nests=nests,
            settled=search.register.known_ids(),
            knowledge=knowledge,
        )

    def found(self, operators: Sequence[str]) -> None:
        """Let operators bring the first children, beside those that are wanted anyway.

        Args:
            operators: The operator of each child; islands take turns.
        """
        for number, operator in enumerate(operators):
            nest = self.nests[number % len(self.nests)]
            nest.founders.append(operator)
            nest.wanted += 1
            nest.tries += 1

    def slot(self, nest: Nest, index: int) -> Slot:
        """Return a place of this generation."""
        return Slot(
            problem=self.search.problem.key,
            generation=self.generation,
            island=nest.island,
            index=index,
        )

    def order(self, slot: Slot) -> tuple[int, int]:
        """Return the rank of a slot among those of its round: by island.

        In generation 0 islands take turns, so that every one starts from other programs.
        """
        ranks = (slot.island, slot.index)
        return ranks if self.generation else (slot.index, slot.island)

    def tired_models(self) -> Set[str]:
        """Return the models that are not asked again in this generation: all they did failed."""
        return failed_models(self.attempts)


def _first_nests(
    search: ProblemSearch, arrivals: Sequence[tuple[str, str]], islands: range, wanted: int
) -> list[Nest]:
    """Generation 0: the reference, then the kernels that waited, one island after the other."""
    known = search.register.known_ids()
    starts = [SEED, *(name for name, _ in arrivals)]
    return [
        Nest(
            island=island,
            seeds=arrivals,
            num_seeds=len(starts[island :: len(islands)]),
            first=len(starts),
            wanted=wanted,
            tries=wanted,
            known=known,
        )
        for island in islands
    ]


def _later_nests(
    search: ProblemSearch, arrivals: Sequence[tuple[str, str]], islands: range, wanted: int
) -> list[Nest]:
    """A later generation: every island by itself; where operators have none, as often again."""
    shares = [arrivals[island :: len(islands)] for island in islands]
    return [
        Nest(
            island=island,
            seeds=seeds,
            num_seeds=len(seeds),
            first=len(seeds),
            wanted=wanted,
            tries=2 * wanted,
            known=search.register.known_ids(),
        )
        for island, seeds in zip(islands, shares, strict=True)
    ]
