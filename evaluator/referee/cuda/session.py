"""One problem on one GPU: its reference worker, its secret inputs, what they should give."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from evaluator.referee.correctness import Bound, Deviation, bound_of, judge
from evaluator.referee.cuda.clocks import SealBases
from evaluator.referee.cuda.memory import STOCK_SETS, CudaPlan, require_fit
from evaluator.referee.cuda.pages import NUM_PAGES, Pages
from evaluator.referee.cuda.reference import CudaReference, Numbers, Room
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.footprint import largest_intermediate
from evaluator.referee.indices import pointers
from evaluator.referee.inputs import (
    CHECK_PLAN,
    Hand,
    PlannedSet,
    TimedDeck,
    check_plan,
    secret_seed,
)
from evaluator.referee.reference import ReferenceWorker
from evaluator.referee.session import constant_weights
from evaluator.referee.sessions import closing_on_error
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.votes import (
    draws_for_bounds,
    require_vote,
    steady_variants,
    timed_bounds,
)
from evaluator.values import SIGNAL_BYTES, Permitted
from evaluator.wire import ALIGNMENT_BYTES, ValueSpec, layout
from problems.errors import EvaluatorError, WorkerDied
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CudaCheckSet", "CudaSession"]

ALONE_LEGS = 5
ALONE_LEG_MS = 1.0
ALONE_CALLS = 16
WARM_UP_MS = 25.0
MAX_FREE_SHARE = 0.1

_Errors = tuple[str, list[Deviation]]
"""A distribution, and the reference's own error in each output on one set of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaCheckSet:
    """One input set; its contents and what it should give are in the reference's process.

    Attributes:
        plan: What it is.
        number: By which the reference knows it.
        bounds: The error permitted for each output.
        voids: For each output, what would pass without computing anything, or None.
    """

    plan: PlannedSet
    number: int
    bounds: tuple[Bound, ...]
    voids: tuple[str | None, ...]


class CudaSession:
    """A problem that candidates are judged on; its device work needs a share of the gate."""

    def __init__(
        self,
        problem: Problem,
        graph: OperatorGraph | None,
        spawner: Spawner,
        plan: WorkerPlan,
        deadlines: Deadlines,
        memory_bytes: int,
    ) -> None:
        """Open the problem in a reference worker of its own; its sets are drawn by `fill`.

        Args:
            problem: The problem.
            graph: Its operator graph; None where it cannot be traced.
            spawner: Forks its worker.
            plan: How the worker is to run.
            deadlines: How long each step may take.
            memory_bytes: All of the GPU's memory.

        Raises:
            ProblemError: It does not load or run, or does not fit in memory.
            EvaluatorError: The reference worker could not be started or ended.
        """
        self.problem = problem
        self.construction_seed = secret_seed()
        self.evaluations = 0
        self.checks_lock = threading.Lock()
        self.verification_lock = threading.Lock()
        self.turn_lock = threading.Lock()
        self.weights_lock = threading.Lock()
        self.constant_weights: tuple[str, ...] = ()
        self.bounds: dict[str, tuple[Bound, ...]] = {}
        self.alone_ms = self.fresh_ms = 0.0
        self.idle_ms = 0.0
        self.seal_bases: SealBases | None = None
        self.most_sealed_calls: int | None = None
        self.pages = Pages()
        self.state = SharedMemory("state")
        self.signals = SharedMemory("signals", NUM_PAGES * SIGNAL_BYTES)
        self.signals.seal()
        self._deadlines = deadlines
        self._rng = np.random.default_rng(secret_seed())
        self._hidden_seed = secret_seed()
        self._deck = TimedDeck(("own",), self._rng)
        self._hand = Hand()
        self._permitted = Permitted()
        self._plan: tuple[PlannedSet, ...] = CHECK_PLAN
        worker = spawner.spawn(replace(plan, memory=(self.state, self.signals)))
        self.reference = CudaReference(ReferenceWorker(worker, problem, deadlines))
        with closing_on_error(self):
            self._open(graph, memory_bytes)

    @property
    def num_bytes(self) -> int:
        """Memory of the GPU that the session keeps."""
        return self.memory.session_bytes

    @property
    def ended(self) -> bool:
        """Whether its reference has ended."""
        return self.reference.worker.ended

    @property
    def has_state(self) -> bool:
        """Whether the problem has parameters or buffers."""
        return bool(self.opened.state)

    def publish_weights(self, *, hidden: bool) -> None:
        """Set the weights as constructed, or the hidden ones; to be called with `weights_lock`."""
        if self.opened.state:
            self.reference.weights(self._hidden_seed if hidden else None)

    def draw_checks(
        self, *, verification: bool = False, votes: bool = False
    ) -> tuple[CudaCheckSet, ...]:
        """Draw fresh check sets side by side, the search's or a verification's; maybe their votes.

        The hidden weights stay published.
        """
        first = len(self._plan) if verification else 0
        found: list[tuple[list[Deviation], list[float]]] = []
        errors: list[_Errors] = []
        with self.weights_lock, _ended_where_it_fails(self.reference):
            self.publish_weights(hidden=False)
            for number, planned in enumerate(self._plan, start=first):
                if planned.hidden_weights:
                    self.publish_weights(hidden=True)
                several = [self._draw(planned, number) for _ in range(self._draws_for_bounds)]
                errors += [(planned.variant, deviations) for deviations, _ in several]
                found.append(several[-1])  # The others made room for it.
        bounds = _bounds(self.opened.outputs, errors)
        if not verification:
            self.bounds = bounds
        if not votes:
            numbered = enumerate(self._plan, start=first)
            return tuple(_unvoted(number, one, bounds[one.variant]) for number, one in numbered)
        means = [mean for _, mean in found]
        return tuple(
            _voted(
                self.reference,
                first + at,
                one,
                bounds[one.variant],
                means[:at] + means[at + 1 :],
                found[at][0],
            )
            for at, one in enumerate(self._plan)
        )

    def draw_in_turn(self, at: int) -> CudaCheckSet:
        """Draw one check set of the plan anew, in place of the last one."""
        planned = self._plan[at]
        self._draw_alone(planned)
        return _unvoted(0, planned, self.bounds[planned.variant])

    def survey(self) -> tuple[CudaCheckSet, ...]:
        """Draw all check sets in turn, for their bounds and their votes; the first one twice.

        The votes on a set are about the means of those before it, on the first about the others'.
        """
        outputs = self.opened.outputs
        found: list[tuple[list[Deviation], list[float]]] = []
        errors: list[_Errors] = []
        checks = []
        for planned in self._plan:
            means = [mean for _, mean in found]
            several = [self._draw_alone(planned) for _ in range(self._draws_for_bounds)]
            errors += [(planned.variant, deviations) for deviations, _ in several]
            found.append(several[-1])
            own, _ = found[-1]
            checks.append(_voted(self.reference, 0, planned, _bound(outputs, [own]), means, own))
        others = [mean for _, mean in found[1:]]
        first = self._plan[0]
        again, _ = self._draw_alone(first)
        checks[0] = _voted(self.reference, 0, first, _bound(outputs, [again]), others, again)
        self.bounds = _bounds(outputs, errors)
        return tuple(checks)

    def timed_bounds(self, call: int) -> tuple[Bound, ...]:
        """Return the errors permitted of a call on the sets mixed last, for each output."""
        sizes = [spec.numel for spec in self.opened.outputs]
        return timed_bounds(self.bounds, self._hand.variants[call], sizes)

    def mix(self, calls: int, room: Room | None) -> list[Numbers]:
        """Fill timed sets with contents that nobody has seen, and copies of them in a room."""
        self._hand = self._deck.deal(calls)
        return self.reference.mix(self._hand.variants, secret_seed(), room)

    def compared_call(self) -> int:
        """Return the call on the sets mixed last that is to be compared: nobody can foresee it."""
        self._deck.compared(self._hand)
        return self._hand.call

    def choose(self, count: int) -> int:
        """Choose a number from 0 to count - 1, so that nobody can foresee it."""
        return int(self._rng.integers(count))

    def leg(self, calls: int) -> tuple[float, float]:
        """Time a leg of the reference on the sets mixed last.

        Returns:
            The ms per call by its events, and what of the wall of the leg was not in its calls.
        """
        times_ms, wall_ms = self.reference.leg(calls)
        return self.per_call_ms(times_ms), wall_ms - sum(times_ms)

    def per_call_ms(self, times_ms: Sequence[float]) -> float:
        """Return the number of a leg, from what events say of each of its calls, in ms.

        It is their median; their mean where nothing can be sealed: work for all calls that is done
        in one of them would be seen by no other clock then.
        """
        if self.seal_bases is None:
            return sum(times_ms) / len(times_ms)
        return median(times_ms)

    def settle(self) -> None:
        """Measure the reference alone, and what events say of nothing; under the timing gate."""
        self.idle_ms = self.reference.idle_ms(ALONE_CALLS)
        calls = min(self.memory.num_timed, 2)
        self.mix(calls, None)
        busy_ms = 0.0
        while busy_ms < WARM_UP_MS:
            self.alone_ms = self.leg(calls)[0]
            busy_ms += max(self.alone_ms * calls, 0.1)
        calls = min(self.memory.num_timed, max(2, int(ALONE_LEG_MS / self.alone_ms)), ALONE_CALLS)
        self.mix(calls, None)
        self.alone_ms = median(self.leg(calls)[0] for _ in range(ALONE_LEGS))
        self.fresh_ms = self.fresh_ms or self.alone_ms

    def limit_s(self, calls: int) -> float:
        """Return how long some calls of a candidate may take."""
        return self._deadlines.of_calls(calls, self.alone_ms)

    def rest(self) -> None:
        """Give back what is not needed before the next candidate, where that is much."""
        if self.memory.in_turn:
            self.reference.rest()

    def close(self) -> None:
        """End the worker and give the memory back."""
        self.reference.end()
        self.state.close()
        self.signals.close()

    def _open(self, graph: OperatorGraph | None, memory_bytes: int) -> None:
        pointing = {} if graph is None else pointers(graph)
        self.opened = self.reference.open(self.problem, self.construction_seed, pointing)
        self._draws_for_bounds = draws_for_bounds([spec.numel for spec in self.opened.outputs])
        self.memory = CudaPlan.of(self.opened.inputs, self.opened.outputs, memory_bytes)
        largest = 0 if graph is None else largest_intermediate(graph)
        self.turn_bytes = require_fit(self.problem.label, self.memory, largest, memory_bytes)
        self.state.resize(max(layout(self.opened.state)[1], ALIGNMENT_BYTES))
        if self.has_state:
            self.reference.weights(None)
            self.state.seal_writers()
            self.constant_weights = constant_weights(self.opened.state, self.state)
        else:
            self.state.seal()
        self.reference.rest()

    def fill(self) -> None:
        """Draw the sets that candidates meet; takes `turn_bytes` of the GPU where they take turns.

        Raises:
            ProblemError: It cannot be judged: what computes nothing would pass.
            EvaluatorError: The reference worker has ended.
        """
        sets = 0 if self.memory.in_turn else STOCK_SETS
        self._permitted = self.reference.stock(secret_seed(), sets)
        self._plan = check_plan(self._permitted)
        self.checks = self.survey() if self.memory.in_turn else self.draw_checks(votes=True)
        require_vote(self.problem.label, [check.voids for check in self.checks])
        self._deck = TimedDeck(steady_variants(self._permitted.variants, self.bounds), self._rng)

    def _draw(self, planned: PlannedSet, number: int) -> tuple[list[Deviation], list[float]]:
        self.reference.draw(number, secret_seed(), planned.variant, runs=self._permitted.runs)
        return self.reference.expect(number)

    def _draw_alone(self, planned: PlannedSet) -> tuple[list[Deviation], list[float]]:
        """Draw a set into the one place; the hidden weights stay published afterwards."""
        with self.weights_lock:
            if not planned.hidden_weights:
                self.publish_weights(hidden=False)
            drawn = self._draw(planned, 0)
            if not planned.hidden_weights:
                self.publish_weights(hidden=True)
        return drawn


def _voted(
    reference: CudaReference,
    number: int,
    planned: PlannedSet,
    own: tuple[Bound, ...],
    other_means: list[list[float]],
    deviations: list[Deviation],
) -> CudaCheckSet:
    """A set with what would pass on it without computing anything."""
    constants = [[means[output] for means in other_means] for output in range(len(own))]
    nulls = reference.nulls(number, constants, [bound.rms for bound in own])
    voids = tuple(
        "overflow" if known.free > MAX_FREE_SHARE else _passing(found, bound)
        for found, bound, known in zip(nulls, own, deviations, strict=True)
    )
    return CudaCheckSet(plan=planned, number=number, bounds=own, voids=voids)


def _unvoted(number: int, planned: PlannedSet, bounds: tuple[Bound, ...]) -> CudaCheckSet:
    """A set of a problem whose sets were found to prove something when it was opened."""
    return CudaCheckSet(plan=planned, number=number, bounds=bounds, voids=(None,) * len(bounds))


def _bounds(
    outputs: Sequence[ValueSpec], errors: Sequence[_Errors]
) -> dict[str, tuple[Bound, ...]]:
    """The bounds of each distribution: from the reference's worst error over its sets."""
    bounds = {}
    for variant in {variant for variant, _ in errors}:
        bounds[variant] = _bound(outputs, [found for one, found in errors if one == variant])
    return bounds


def _bound(outputs: Sequence[ValueSpec], sets: list[list[Deviation]]) -> tuple[Bound, ...]:
    """The bound of each output from the reference's errors on sets of one distribution."""
    return tuple(
        bound_of(owns, spec.dtype)
        for spec, owns in zip(outputs, zip(*sets, strict=True), strict=True)
    )


def _passing(found: dict[str, Deviation], bound: Bound) -> str | None:
    """Name what passes, or None."""
    for name, deviation in found.items():
        if judge(deviation, bound) is None:
            return "constant" if name.startswith("constant") else name
    return None


@contextmanager
def _ended_where_it_fails(reference: CudaReference) -> Iterator[None]:
    """End the reference where a drawing fails.

    A set is missing then, and the weights that are published may not be those with which the
    expected outputs of other sets were computed.

    Raises:
        WorkerDied: It failed; whoever is judged here is judged anew, in another session.
    """
    try:
        yield
    except EvaluatorError as error:
        reference.worker.end()
        raise WorkerDied(f"the check sets could not be drawn: {error}") from error
