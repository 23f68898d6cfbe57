"""The engine: the loop that puts operators, evaluator, archives and store together.

Nobody else composes. `Engine._generation` is the whole search in one screen; the rest of this file
decides whose turn it is and when to stop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from archives.evaluation import Evaluation
from archives.records import ProblemStatus, RunState
from archives.store import Store
from evaluator.evaluator import Capacity, Evaluator
from evokernel.allowance import Bill
from evokernel.breeding import Breeder
from evokernel.budget import Budget
from evokernel.config import RunConfig
from evokernel.consulting import Consulting
from evokernel.heap import settled_heap
from evokernel.heirlooms import read_heirlooms
from evokernel.judging import Judge
from evokernel.kin import Kin, transfers, who_is_due
from evokernel.lifts import LIFTING_OPERATOR, lift_once, option_sets
from evokernel.linting import lint_once
from evokernel.matching import ChooseBaseline, Matching
from evokernel.monitor import Monitor, ProblemView
from evokernel.origins import located, origin_of
from evokernel.provenance import settle_device
from evokernel.search import ProblemSearch, recover
from evokernel.tasks import cancel_all, run_together
from evokernel.tracing import trace_once
from evokernel.turns import Turns
from evokernel.verification import Verifier
from operators.llm.keys import keys_withheld
from operators.operator import Operator
from problems.errors import ProblemError

__all__ = ["Ending", "Engine"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a sitting of a run ended.

    Attributes:
        state: What the store says now.
        reason: Why it stopped before its end, for people; "" where it did not.
        skipped: (label, reason) of the problems that were given up.
    """

    state: RunState
    reason: str = ""
    skipped: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, store: Store, state: RunState, reason: str = "") -> Ending:
        """Return how a sitting ended, with the problems that its store says were given up."""
        pairs = zip(store.problems(), store.problem_states(), strict=True)
        skipped = tuple(
            (problem.label, found.reason)
            for problem, found in pairs
            if found.status is ProblemStatus.SKIPPED
        )
        return cls(state=state, reason=reason, skipped=skipped)


class Engine:
    """Runs, or goes on with, the run of one store. Use it once."""

    def __init__(
        self,
        *,
        store: Store,
        config: RunConfig,
        evaluator: Evaluator,
        operators: Mapping[str, Operator],
        consulting: Consulting | None = None,
        baseline: ChooseBaseline = lambda device: None,
        monitor: Monitor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a sitting; nothing starts yet.

        Args:
            store: Open for writing, with its problems in it.
            config: The run's configuration.
            evaluator: Not started yet.
            operators: By name; "seed" must be among them.
            consulting: Asks language models; None: there is none to ask.
            baseline: Tells what torch reached where the evaluator measures.
            monitor: What people are shown.
            clock: Seconds; for costs and the time limit.
        """
        assert "seed" in operators, "every run starts from seeds"
        self._store = store
        self._config = config
        self._evaluator = evaluator
        self._operators = operators
        self._consulting = consulting
        self._baseline = baseline
        self._clock = clock
        self._stop = ""
        self.monitor = monitor or Monitor()
        self.budget = Budget(config=config.budget, clock=clock, started=clock())
        if consulting is not None:
            consulting.attach(self.monitor, self.budget.left_s)

    @property
    def spent(self) -> Bill:
        """What language models have cost the run so far."""
        return Bill() if self._consulting is None else self._consulting.allowance.spent

    async def run(self) -> Ending:
        """Run until every problem is done, or the budget is spent.

        Cancelling stops cleanly: what was recorded stays, and the run can be resumed.

        Raises:
            EvaluatorError: The evaluator does not start, or fails again and again.
            ConfigError: The run was measured on another kind of device.
            StoreError: The store cannot be written any more.
        """
        before = self._store.run()
        self._store.set_state(RunState.RUNNING)
        # Until something was done, a finished run stays one.
        state = before.state if before.state is RunState.FINISHED else RunState.STOPPED
        try:
            with keys_withheld():  # No worker inherits what opens an account.
                capacity = await self._evaluator.start()
            settle_device(self._store, before, capacity)
            state = RunState.STOPPED
            searches = self._prepare(capacity)
            with settled_heap():
                await self._work(searches, capacity)
                while not self._stop and (late := self._with_arrivals(searches)):
                    await self._work(late, capacity, extra=True)
            if not self._stop:
                state = RunState.FINISHED
        finally:
            try:
                await self._evaluator.close()
            finally:
                self._store.set_state(state)
        return Ending.of(self._store, state, self._stop)

    async def _generation(self, search: ProblemSearch, generation: int) -> None:
        """One generation of one problem: select, vary, evaluate, insert, record, migrate."""
        arrivals = self._store.take_seeds(search.problem.key, generation)
        kernels = [(seed.name, seed.source) for seed in arrivals]
        verdicts: list[asyncio.Task[None]] = []
        try:
            # Select and vary: who needs a model is waited for while others are evaluated.
            async with aclosing(self._breeder.drafts(search, generation, kernels)) as broods:
                async for drafts in broods:
                    waiting = self._judge.enter(search, drafts)
                    # Evaluate: verdicts arrive in any order, and each is recorded at once.
                    verdicts += [
                        asyncio.ensure_future(self._judge.judge(search, draft)) for draft in waiting
                    ]
            await asyncio.gather(*verdicts)
        finally:
            await cancel_all(verdicts)
        # Insert in slot order, credit, migrate; and record all of it in one transaction.
        outcome = search.close_generation(generation)
        self._store.finish_generation(search.problem.key, generation, outcome)

    def _prepare(self, capacity: Capacity) -> list[ProblemSearch]:
        """Bring every problem to where the store's rows are."""
        self._judge = Judge(
            store=self._store,
            evaluator=self._evaluator,
            budget=self.budget,
            monitor=self.monitor,
            patience=self._config.evaluation.failures,
            matching=Matching(baseline=self._baseline(capacity.device)),
            library=self._config.evaluation.library,
        )
        self._verifier = Verifier(
            store=self._store,
            judge=self._judge,
            config=self._config.evaluation,
            solved_share=self._config.search.solved_share(capacity.device.kind),
        )
        self._option_sets = option_sets(self._config.operators, capacity.device.kind)
        if self._store.run().noisy:
            self.monitor.note = "noisy host"
        self.budget.evaluations = self._store.counts().evaluations
        searches: list[ProblemSearch] = []
        states = self._store.problem_states()
        for index, (problem, state) in enumerate(zip(self._store.problems(), states, strict=True)):
            search = ProblemSearch.begin(problem, index, self._config)
            recover(search, self._store)
            search.closed = state.reason if state.status is not ProblemStatus.OPEN else ""
            searches.append(search)
            if self._consulting and self._consulting.has_room(problem.key, self._config.llm.models):
                search.population.ensemble.reinstate()
            # Proposals of an interrupted generation are paid for, and get their verdict now.
            self.budget.evaluations += search.num_outstanding
            _show(self.monitor, search, "waiting")
        families = _by_family(searches)
        self._breeder = Breeder(
            operators=self._operators,
            config=self._config,
            device=capacity.device,
            store=self._store,
            budget=self.budget,
            families=families,
            kin=self._kin(families),
            consulting=self._consulting,
            rates=self._store.run().rates,
            clock=self._clock,
        )
        self.monitor.steps = len(searches) * (self._config.search.generations + 1)
        return searches

    def _kin(self, families: Mapping[str, Sequence[ProblemSearch]]) -> Kin | None:
        """Bring related problems together, where an operator wants to learn from them."""
        if not transfers(self._config, self._operators):
            return None
        return Kin(
            families=families,
            together=self._config.search.together,
            graph_of=self._store.graph,
            heirlooms=read_heirlooms(self._store.folder),
        )

    async def _work(
        self, searches: Sequence[ProblemSearch], capacity: Capacity, *, extra: bool = False
    ) -> None:
        """Let problems take turns, generation by generation, as many at a time as fit.

        Nobody waits for a whole generation: the next turn is whichever is due first.
        """
        search_config = self._config.search
        turns = Turns(searches, search_config.together, who_is_due(self._config, self._operators))
        brood = search_config.islands * min(search_config.proposals, search_config.initial or 1)
        # A candidate that waits for a model keeps no evaluator busy: others must be there then.
        under_way = capacity.in_flight + (self._config.llm.in_flight if self._consulting else 0)
        active = min(len(turns), 1 + math.ceil(under_way / brood))

        async def take_turns() -> None:
            while turn := await turns.take():
                again = await self._turn(turn.search, turn.generation, extra=extra)
                turns.give_back(turn, again=again)

        await run_together(take_turns() for _ in range(active))

    async def _turn(self, search: ProblemSearch, generation: int, *, extra: bool) -> bool:
        """Give a problem its turn; return whether it wants another one."""
        last = generation if extra else self._config.search.generations
        try:
            if (extra or not search.closed) and generation <= last:
                self._stop = self._stop or self.budget.exhausted(self._reserve_s())
                if not self._stop:
                    _show(self.monitor, search, f"generation {generation}")
                    if not search.recorded:  # A generation that has begun was asked for already.
                        await self._verifier.close_if_solved(search)
                    if extra or not search.closed:
                        await lint_once(self._store, self._evaluator, search)
                        await trace_once(self._store, self._evaluator, search)
                        if LIFTING_OPERATOR in self._operators and self._option_sets:
                            await lift_once(self._store, self._evaluator, search, self._option_sets)
                        await self._generation(search, generation)
                        self.monitor.steps_done += 1
                    if generation < last and not search.closed:
                        _show(self.monitor, search, f"generation {generation} done")
                        return True
            await self._conclude(search)
        except ProblemError as error:
            _LOG.info("problem %s is skipped: %s", search.problem.label, error)
            origin = origin_of(search.problem, self._config.problems)
            self._judge.skip(search, located(search.problem, str(error), origin))
            _show(self.monitor, search, "skipped", is_done=True)
        return False

    async def _conclude(self, search: ProblemSearch) -> None:
        """Verify what will be reported; a problem that was skipped has nothing to."""
        verified: Evaluation | None = None
        if self._config.evaluation.verify and search.reached >= 0:
            _show(self.monitor, search, "verification")
            try:
                verified = await self._verifier.verify(search)
            except ProblemError as error:
                # What was found stays, and is reported as not verified.
                _LOG.warning("problem %s is not verified: %s", search.problem.label, error)
        stage = "verified" if verified else search.closed or "done"
        _show(self.monitor, search, stage, is_done=True, verified=verified)

    def _with_arrivals(self, searches: Sequence[ProblemSearch]) -> list[ProblemSearch]:
        """The problems for which a human kernel arrived after their last generation."""
        waiting = {seed.problem for seed in self._store.waiting_seeds()}
        waiting -= {
            state.key
            for state in self._store.problem_states()
            if state.status is ProblemStatus.SKIPPED
        }
        return [s for s in searches if s.problem.key in waiting and s.reached >= 0]

    def _reserve_s(self) -> float:
        """Seconds that verifying what is not verified yet will take."""
        if not self._config.evaluation.verify:
            return 0.0
        pending = sum(
            1
            for view in self.monitor.problems.values()
            if not view.is_done and (view.speedup or 0.0) > self._config.evaluation.verify_above
        )
        return pending * self._verifier.cost_s


def _by_family(searches: Sequence[ProblemSearch]) -> dict[str, list[ProblemSearch]]:
    families: dict[str, list[ProblemSearch]] = {}
    for search in searches:
        families.setdefault(search.problem.family, []).append(search)
    return families


def _show(
    monitor: Monitor,
    search: ProblemSearch,
    stage: str,
    *,
    is_done: bool = False,
    verified: Evaluation | None = None,
) -> None:
    """Let people see where a problem stands."""
    best = search.population.archive.best
    found = best.objective_speedup if best else None
    measured = verified or (search.register.evaluation(best.candidate) if best else None)
    monitor.problems[search.problem.key] = ProblemView(
        label=search.problem.label,
        stage=stage,
        is_done=is_done,
        speedup=verified.objective_speedup if verified else found,
        is_matched=measured is not None
        and measured.matched_speedup not in (None, measured.speedup),
        is_verified=verified is not None,
        coverage=search.population.archive.coverage,
    )
