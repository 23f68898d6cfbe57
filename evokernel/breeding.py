"""Breeding: asking operators for children."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint
from archives.store import Store
from evokernel.config import RunConfig
from evokernel.island import Island
from evokernel.population import SEED, Choice
from evokernel.register import KnownIds
from evokernel.search import Draft, ProblemSearch, at_point
from operators.operator import Operator, OperatorContext, Parent, Proposal

__all__ = ["Breeder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brood:
    """What the proposals of one generation have in common."""

    search: ProblemSearch
    generation: int
    known: KnownIds
    seeds: Sequence[tuple[str, str]]

    def slot(self, island: Island, index: int) -> Slot:
        return Slot(
            problem=self.search.problem.key,
            generation=self.generation,
            island=island.index,
            index=index,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breeder:
    """Asks operators for the children of a generation.

    What an island proposes depends on the finished generations and its own random streams
    alone; islands are asked at the same time.

    Attributes:
        operators: By name; "seed" is among them.
        config: The run's configuration.
        device: Where the children will be measured.
        store: For the texts of parents.
        clock: Seconds, for the cost of proposing.
    """

    operators: Mapping[str, Operator]
    config: RunConfig
    device: DeviceFingerprint
    store: Store
    clock: Callable[[], float] = time.monotonic

    def broods(
        self, search: ProblemSearch, generation: int, arrivals: Sequence[tuple[str, str]]
    ) -> list[Coroutine[None, None, list[Draft]]]:
        """Return what is to be awaited for a generation, in the order to be recorded.

        Args:
            search: The problem's search.
            generation: From 0.
            arrivals: Kernels that waited for this generation: (name, source).
        """
        if generation == 0:
            return [self._founders(search, arrivals)]
        islands = search.population.islands
        return [
            self._children(search, generation, island, arrivals[island.index :: len(islands)])
            for island in islands
        ]

    async def _founders(
        self, search: ProblemSearch, seeds: Sequence[tuple[str, str]]
    ) -> list[Draft]:
        """Ask for generation 0: the reference, human kernels, first programs without parents.

        One after the other, so that every island starts from other programs.
        """
        if search.recorded:
            recorded = [draft for drafts in search.recorded.values() for draft in drafts]
            return sorted(recorded, key=lambda draft: draft.attempt.slot)
        brood = _Brood(search=search, generation=0, known=search.register.known_ids(), seeds=seeds)
        islands = search.population.islands
        drafts: list[Draft] = []
        for number in range(1 + len(seeds)):
            island = islands[number % len(islands)]
            slot = brood.slot(island, number // len(islands))
            drafts.append(await self._draft(brood, slot, Choice(operator=SEED)))
        for number in range(self.config.search.initial * len(islands)):
            island = islands[number % len(islands)]
            slot = brood.slot(island, len(seeds) + 1 + number // len(islands))
            choice = self._choose(brood, slot)
            if choice is not None:
                drafts.append(await self._draft(brood, slot, choice))
        return drafts

    async def _children(
        self,
        search: ProblemSearch,
        generation: int,
        island: Island,
        arrivals: Sequence[tuple[str, str]],
    ) -> list[Draft]:
        """Ask for an island's children; where operators have none, ask as often again."""
        if island.index in search.recorded:
            return search.recorded[island.index]
        brood = _Brood(
            search=search,
            generation=generation,
            known=search.register.known_ids(),
            seeds=arrivals,
        )
        drafts: list[Draft] = []
        for index in range(len(arrivals)):
            slot = brood.slot(island, index)
            drafts.append(await self._draft(brood, slot, Choice(operator=SEED)))
        planned = self.config.search
        wanted = planned.proposals if generation <= planned.generations else 0
        for index in range(len(arrivals), len(arrivals) + 2 * wanted):
            slot = brood.slot(island, index)
            choice = self._choose(brood, slot)
            if choice is None or wanted == 0:
                break
            drafts.append(await self._draft(brood, slot, choice))
            wanted -= drafts[-1].candidate is not None
        return drafts

    def _choose(self, brood: _Brood, slot: Slot) -> Choice | None:
        """Choose operator and parents.

        Nobody has parents in generation 0, nor among independent tries.
        """
        search = brood.search
        inherits = slot.generation > 0 and search.population.evolves
        able = {
            name: (*operator.num_parents, operator.from_failures)
            for name, operator in self.operators.items()
            if (inherits or operator.num_parents[1] == 0)
            and operator.applies(self._context(brood, slot, name))
        }
        island = search.population.islands[slot.island]
        return search.population.choose(island, able, search.streams.choice(slot))

    async def _draft(self, brood: _Brood, slot: Slot, choice: Choice) -> Draft:
        """Ask one operator for one child."""
        search = brood.search
        parents = [self._parent(search, *parent) for parent in choice.parents]
        started = self.clock()
        proposal = await self.operators[choice.operator].propose(
            parents, self._context(brood, slot, choice.operator), search.streams.proposal(slot)
        )
        candidate = _candidate(search.problem.key, proposal)
        if candidate is not None:
            brood.known.add(candidate)
        attempt = Attempt(
            slot=slot,
            operator=choice.operator,
            parents=tuple(parent.slot for parent in parents),
            state=AttemptState.PROPOSED if candidate else AttemptState.FAILED,
            reason=proposal.reason,
            candidate=candidate.id if candidate else None,
            note=proposal.note,
            cost_s=self.clock() - started,
            cost_usd=proposal.cost_usd,
        )
        return Draft(attempt=attempt, candidate=candidate, configurations=proposal.configurations)

    def _parent(self, search: ProblemSearch, slot: Slot, candidate_id: str) -> Parent:
        candidate = self.store.candidate(candidate_id, search.problem.key)
        return Parent(
            slot=slot,
            candidate=candidate,
            evaluation=search.register.evaluation(candidate_id),
            tried=search.register.tried(candidate.program_id),
        )

    def _context(self, brood: _Brood, slot: Slot, operator: str) -> OperatorContext:
        return OperatorContext(
            problem=brood.search.problem,
            graph=brood.search.graph,
            device=self.device.kind,
            threads=max(1, self.device.threads),
            generation=slot.generation,
            island=slot.island,
            seeds=brood.seeds,
            known=brood.known,
            settings=self.config.operators.settings.get(operator, {}),
        )


def _candidate(problem_key: str, proposal: Proposal) -> Candidate | None:
    """The proposed program, standing at the first of its points."""
    if proposal.source is None:
        return None
    points = proposal.configurations
    return Candidate.of(problem_key, at_point(proposal.source, points[0] if points else None))
