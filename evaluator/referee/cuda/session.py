"""One problem on one GPU: its reference worker, its secret inputs, what they should give."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from statistics import median

import numpy as np

from evaluator.referee.correctness import Bound
from evaluator.referee.cuda.clocks import SealBases
from evaluator.referee.cuda.draws import CudaCheckSet, CudaDraws, Piece
from evaluator.referee.cuda.memory import STOCK_SETS, CudaPlan, require_fit
from evaluator.referee.cuda.pages import NUM_PAGES, Pages
from evaluator.referee.cuda.reference import CudaReference, Numbers, Room
from evaluator.referee.cuda.turns import Turns
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.footprint import largest_intermediate
from evaluator.referee.indices import pointers
from evaluator.referee.inputs import Hand, TimedDeck, secret_seed
from evaluator.referee.reference import ReferenceWorker
from evaluator.referee.session import constant_weights
from evaluator.referee.sessions import closing_on_error
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.votes import require_vote, steady_variants, timed_bounds
from evaluator.values import SIGNAL_BYTES
from evaluator.wire import ALIGNMENT_BYTES, layout
from problems.errors import EvoKernelError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CudaSession"]

ALONE_LEGS = 5
ALONE_LEG_MS = 1.0
ALONE_CALLS = 16
WARM_UP_MS = 25.0


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
        self.turns: Turns[CudaCheckSet] | None = None
        self.weights_lock = threading.Lock()
        self.constant_weights: tuple[str, ...] = ()
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
        if not self.opened.state:
            return
        try:
            self.reference.weights(self._hidden_seed if hidden else None)
        except EvoKernelError:
            # What it computes with may be neither now: nobody is to be judged by it any more.
            self.reference.end()
            raise

    def timed_bounds(self, call: int) -> tuple[Bound, ...]:
        """Return the errors permitted of a call on the sets mixed last, for each output."""
        sizes = [spec.numel for spec in self.opened.outputs]
        return timed_bounds(self.draws.bounds, self._hand.variants[call], sizes)

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
        """Return how long a leg of some calls may take."""
        return self._deadlines.of_leg(calls, self.alone_ms)

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

    def fill(self, piece: Piece = nullcontext) -> None:
        """Draw the sets that candidates meet; takes `turn_bytes` of the GPU where they take turns.

        Args:
            piece: Entered for each piece of work on the device.

        Raises:
            ProblemError: It cannot be judged: what computes nothing would pass.
            EvaluatorError: The reference worker has ended.
        """
        sets = 0 if self.memory.in_turn else STOCK_SETS
        with piece():
            permitted = self.reference.stock(secret_seed(), sets)
        self.draws = CudaDraws(self.reference, self.opened, self, permitted)
        if self.memory.in_turn:
            self.checks = self.draws.survey(piece)
        else:
            with piece():
                self.checks = self.draws.draw_checks(votes=True)
        require_vote(self.problem.label, [check.voids for check in self.checks])
        steady = steady_variants(permitted.variants, self.draws.bounds)
        self._deck = TimedDeck(steady, self._rng)
