"""Breeding: asking operators for the children of a generation.

Children are asked for in rounds: as many as are still wanted, all at once. Operators that need no
model answer at once and one after the other, so that each sees what its siblings have proposed;
those that ask a model wait side by side. What failed is asked for again in the next round.

What is proposed depends on the finished generations, the slots' random streams and the models'
replies, never on the order in which replies arrive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from archives.store import Store
from evokernel.brood import Brood, Nest
from evokernel.budget import Budget
from evokernel.choosing import Choice, Wants, choose
from evokernel.config import RunConfig
from evokernel.consulting import Consulting, SlotConsult
from evokernel.founding import founding
from evokernel.kin import Kin
from evokernel.knowledge import Knowledge
from evokernel.population import SEED, is_final
from evokernel.recent import RecentPrograms
from evokernel.search import Draft, ProblemSearch, at_point
from evokernel.tasks import cancel_all
from operators.operator import Operator, OperatorContext, Parent, Proposal

__all__ = ["Breeder"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """One question to one operator.

    Attributes:
        slot: The child's place.
        choice: Who is asked, and with which parents.
        nest: Where the child is counted.
    """

    slot: Slot
    choice: Choice
    nest: Nest


@dataclass(frozen=True, slots=True, kw_only=True)
class Breeder:
    """Asks operators for the children of a generation.

    Attributes:
        operators: By name; "seed" is among them.
        config: The run's configuration.
        device: Where the children will be measured.
        store: For the texts of parents.
        budget: Nobody is asked again once it is spent.
        families: The run's searches by family of their problems, for what is learned from kin.
        kin: What is known of related problems; None: nothing is taken over from them.
        consulting: Asks language models; None: there is none to ask.
        rates: What the device was measured to reach when the run began, as the store says: a
            resumed run asks a model as it did before. None: not known.
        clock: Seconds, for the cost of proposing.
        texts: Programs made or read lately.
    """

    operators: Mapping[str, Operator]
    config: RunConfig
    device: DeviceFingerprint
    store: Store
    budget: Budget
    families: Mapping[str, Sequence[ProblemSearch]] = field(default_factory=dict)
    kin: Kin | None = None
    consulting: Consulting | None = None
    rates: Rates | None = None
    clock: Callable[[], float] = time.monotonic
    texts: RecentPrograms = field(default_factory=RecentPrograms)

    async def drafts(
        self, search: ProblemSearch, generation: int, arrivals: Sequence[tuple[str, str]]
    ) -> AsyncGenerator[list[Draft], None]:
        """Yield the proposals of a generation as soon as they can be recorded, in their order.

        First the rows that an interrupted generation left; then of each round those that need
        no model, and those that do in the order of their slots.

        Args:
            search: The problem's search.
            generation: From 0.
            arrivals: Kernels that waited for this generation: (name, source).
        """
        relatives = self.families.get(search.problem.family, ())
        knowledge = Knowledge(
            search=search,
            relatives=[relative for relative in relatives if relative is not search],
            device=self.device,
            recall=self._parent,
            rates=self.rates,
        )
        brood = Brood.plan(search, generation, arrivals, self.config.search, knowledge)
        if self.kin is not None:
            brood.relatives = self.kin.relatives(search, generation)
        if generation == 0 and self.config.search.founding:
            nest = brood.nests[0]
            slot = brood.slot(nest, nest.first)
            context_of = partial(self._context, brood, nest, slot)
            brood.found(founding(self.operators, context_of))
        if self.consulting and self.consulting.was_asked(search.problem.key, generation):
            # What a sitting with a larger budget asked for is asked for again in its replay.
            search.population.ensemble.reinstate()
        if search.recorded:
            yield [search.recorded[slot] for slot in sorted(search.recorded)]
        asks = [*_seeds(brood), *self._round(brood)]
        while asks:
            asks.sort(key=lambda ask: brood.order(ask.slot))
            drafts = await self._in_turn(brood, [ask for ask in asks if not ask.choice.model])
            yield _unrecorded(search, drafts)
            waiting = self._side_by_side(brood, [ask for ask in asks if ask.choice.model])
            async with aclosing(waiting):
                async for batch in waiting:
                    drafts += batch
                    yield _unrecorded(search, batch)
            _count(brood, asks, drafts)
            asks = [] if self.budget.exhausted(0.0) else self._round(brood)

    def _round(self, brood: Brood) -> list[_Ask]:
        """Choose whom to ask for the children that are still wanted."""
        asks = []
        tired = brood.tired_models()
        for nest in brood.nests:
            able: Mapping[str, Wants] = {}
            for index in nest.next_round():
                slot = brood.slot(nest, index)
                able = able or self._able(brood, nest, slot)
                choice = self._choose(brood, nest, slot, able, tired)
                if choice is None:
                    nest.is_done = True
                else:
                    asks.append(_Ask(slot=slot, choice=choice, nest=nest))
        return asks

    def _choose(
        self,
        brood: Brood,
        nest: Nest,
        slot: Slot,
        able: Mapping[str, Wants],
        tired: Set[str],
    ) -> Choice | None:
        """Choose operator and parents."""
        founder = nest.founder(slot.index)
        if founder:
            return Choice(operator=founder)
        search = brood.search
        able = nest.able(able)
        return choose(search.population, slot, able, search.streams.choice(slot), tired)

    def _able(self, brood: Brood, nest: Nest, slot: Slot) -> Mapping[str, Wants]:
        """What each operator that applies needs; the same for all slots of a nest in a round.

        Nobody has parents in generation 0, nor among independent tries.
        """
        inherits = slot.generation > 0 and brood.search.population.evolves
        able = {}
        for name, operator in self.operators.items():
            least, most = operator.num_parents
            if most and not inherits:
                continue
            alone, asking = self._applies(brood, nest, slot, name)
            if alone or asking:
                able[name] = Wants(
                    least=least,
                    most=most,
                    from_failures=operator.from_failures,
                    consults=not alone,
                )
        return able

    def _applies(self, brood: Brood, nest: Nest, slot: Slot, name: str) -> tuple[bool, bool]:
        """Whether an operator applies by itself, and whether it does where a model can be asked."""
        operator = self.operators[name]
        context = self._context(brood, nest, slot, name)
        if operator.applies(context):
            return True, True
        if self.consulting is None:
            return False, False
        consult = self.consulting.of_slot(slot, name, "")
        return False, operator.applies(replace(context, consult=consult))

    async def _in_turn(self, brood: Brood, asks: Sequence[_Ask]) -> list[Draft]:
        """Ask operators that need no model; those of one island one after the other."""

        async def one_island(own: Sequence[_Ask]) -> list[Draft]:
            return [await self._draft(brood, ask) for ask in own]

        if brood.generation == 0:
            return await one_island(asks)
        islands = [[ask for ask in asks if ask.nest is nest] for nest in brood.nests]
        tasks = [asyncio.ensure_future(one_island(own)) for own in islands]
        try:
            return [draft for drafts in await asyncio.gather(*tasks) for draft in drafts]
        finally:
            await cancel_all(tasks)

    async def _side_by_side(
        self, brood: Brood, asks: Sequence[_Ask]
    ) -> AsyncGenerator[list[Draft], None]:
        """Ask operators that wait for a model, all at once; yield as each prefix is there."""
        waiting: list[asyncio.Task[Draft]] = []
        try:
            for ask in asks:
                waiting.append(asyncio.ensure_future(self._draft(brood, ask)))
                # Prompts are built one at a time, so that verdicts are not kept waiting.
                await asyncio.sleep(0)
            while waiting:
                ready = [await waiting.pop(0)]
                while waiting and waiting[0].done():
                    ready.append(waiting.pop(0).result())
                yield ready
        finally:
            await cancel_all(waiting)

    async def _draft(self, brood: Brood, ask: _Ask) -> Draft:
        """Ask one operator for one child; what is recorded already stays as it is."""
        search, choice, slot = brood.search, ask.choice, ask.slot
        row = search.recorded.get(slot)
        if row is not None and (choice.model or row.attempt.operator != choice.operator):
            return row
        parents = [self._parent(search, *parent) for parent in choice.parents]
        context = self._context(brood, ask.nest, slot, choice.operator)
        consult: SlotConsult | None = None
        if choice.model:
            assert self.consulting is not None, "a model was chosen"
            consult = self.consulting.of_slot(slot, choice.operator, choice.model)
            brief = brood.knowledge.brief_for(search.population.islands[slot.island])
            context = replace(context, consult=consult, brief=brief, known=brood.settled)
        started = self.clock()
        proposal = await self.operators[choice.operator].propose(
            parents, context, search.streams.proposal(slot)
        )
        candidate = _candidate(search.problem.key, proposal)
        if candidate is not None:
            self.texts.keep(candidate)  # What is new today is a parent tomorrow.
            if consult is None:
                ask.nest.known.add(candidate)
        if row is not None:
            return row
        attempt = Attempt(
            slot=slot,
            operator=choice.operator,
            parents=tuple(parent.slot for parent in parents),
            state=AttemptState.PROPOSED if candidate else AttemptState.FAILED,
            reason=proposal.reason,
            candidate=candidate.id if candidate else None,
            note=proposal.note,
            # A model's seconds are those of its record, so that a replay gives the same credit.
            cost_s=self.clock() - started if consult is None else consult.latency_s,
            cost_usd=proposal.cost_usd,
            model=consult.model if consult else "",
        )
        return Draft(attempt=attempt, candidate=candidate, configurations=proposal.configurations)

    def _parent(self, search: ProblemSearch, slot: Slot, candidate_id: str) -> Parent:
        candidate = self.texts.get(candidate_id)
        if candidate is None:
            candidate = self.store.candidate(candidate_id, search.problem.key)
            self.texts.keep(candidate)
        return Parent(
            slot=slot,
            candidate=candidate,
            evaluation=search.register.evaluation(candidate_id),
            tried=search.register.tried(candidate.program_id),
        )

    def _context(self, brood: Brood, nest: Nest, slot: Slot, operator: str) -> OperatorContext:
        return OperatorContext(
            problem=brood.search.problem,
            graph=brood.search.graph,
            device=self.device.kind,
            threads=max(1, self.device.threads),
            vector_bits=self.device.vector_bits,
            generation=slot.generation,
            island=slot.island,
            seeds=nest.seeds,
            lifted=brood.search.lifted,
            known=nest.known,
            relatives=brood.relatives,
            library=self.config.evaluation.library,
            settings=self.config.operators.settings.get(operator, {}),
        )


def _seeds(brood: Brood) -> list[_Ask]:
    """Ask for the reference and the kernels that waited."""
    return [
        _Ask(slot=brood.slot(nest, index), choice=Choice(operator=SEED), nest=nest)
        for nest in brood.nests
        for index in range(nest.num_seeds)
    ]


def _count(brood: Brood, asks: Sequence[_Ask], drafts: Sequence[Draft]) -> None:
    """Take note of a finished round, in the order of its questions."""
    found = {draft.attempt.slot: draft for draft in drafts}
    for ask in asks:
        draft = found[ask.slot]
        brood.attempts.append(draft.attempt)
        if ask.choice.operator == SEED:
            continue
        if draft.candidate is None and not ask.choice.model:
            ask.nest.leave_out(ask.choice.operator, is_final=is_final(draft.attempt))
        ask.nest.count(is_born=draft.candidate is not None, asked_model=bool(ask.choice.model))
        if draft.candidate is not None and ask.choice.model:
            ask.nest.known.add(draft.candidate)


def _unrecorded(search: ProblemSearch, drafts: Sequence[Draft]) -> list[Draft]:
    """Those that were not recorded by an interrupted sitting."""
    return [draft for draft in drafts if draft.attempt.slot not in search.recorded]


def _candidate(problem_key: str, proposal: Proposal) -> Candidate | None:
    """The proposed program, standing at the first of its points."""
    if proposal.source is None:
        return None
    points = proposal.configurations
    return Candidate.of(problem_key, at_point(proposal.source, points[0] if points else None))
