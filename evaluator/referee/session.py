"""One problem on one referee: its reference worker, its secret inputs, what they should give."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from evaluator.referee.arrays import Array
from evaluator.referee.correctness import Bound
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets
from evaluator.referee.draws import CheckSet, Draws, row_major
from evaluator.referee.evenness import even_variants
from evaluator.referee.footprint import needed_bytes, plan_of, require_fit, stock_sets
from evaluator.referee.indices import Indices, Pointer, pointers
from evaluator.referee.inputs import Hand, MemoryPlan, TimedDeck, secret_seed
from evaluator.referee.reference import ReferenceWorker
from evaluator.referee.sessions import closing_on_error
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.timing import MIN_LEG_MS, calls_per_leg
from evaluator.referee.votes import require_vote, steady_variants, timed_bounds
from evaluator.wire import ALIGNMENT_BYTES, ValueSpec, layout
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CheckSet", "Session", "constant_weights", "row_major"]

EMPTY_LEGS = 5
EMPTY_VALID_S = 5.0
SETTLING_S = 0.002
"""A halted process needs some time until it stands."""


class Session:
    """A problem that candidates are judged on. To be used under the timing gate, unless stated.

    It may be opened outside the gate where `CoreSets.opens_aside`.
    """

    def __init__(
        self,
        problem: Problem,
        graph: OperatorGraph | None,
        spawner: Spawner,
        cores: CoreSets,
        deadlines: Deadlines,
        room_bytes: int,
        turn: threading.Lock,
    ) -> None:
        """Open the problem: start its reference worker and draw its sets; `settle` follows.

        Args:
            problem: The problem.
            graph: Its operator graph; None where it cannot be traced: what it needs then shows
                only when it runs, and its indices must be exact.
            spawner: Forks its workers.
            cores: Who runs where.
            deadlines: How long each step may take.
            room_bytes: From how much shared memory on check sets are drawn in turn.
            turn: Held while a leg is timed; keeps the referee's other threads still meanwhile.

        Raises:
            ProblemError: It does not load or run, does not fit in memory, or cannot be judged.
            EvaluatorError: The reference worker could not be started or ended.
        """
        if graph is not None:
            require_fit(problem.label, needed_bytes(graph, plan_of(graph, room_bytes)))
        self.problem = problem
        self.turn = turn
        self._cores = cores
        self.construction_seed = secret_seed()
        self.inputs = SharedMemory("inputs")
        self.state = SharedMemory("state")
        self._expected = SharedMemory("expected")
        self._rng = np.random.default_rng(secret_seed())
        self.evaluations = 0
        self.checks_lock = threading.Lock()
        self.verification_lock = threading.Lock()
        files = (self.inputs, self.state, self._expected)

        def worker(memory: tuple[SharedMemory, ...]) -> ReferenceWorker:
            plan = WorkerPlan(
                role="reference",
                cpus=cores.other if cores.opens_aside else cores.timed,
                threads=cores.threads,
                memory_bytes=None,
                memory=memory,
                timed=True,
                aside=cores.opens_aside,
            )
            return ReferenceWorker(spawner.spawn(plan), problem, deadlines)

        self.reference = worker(files)
        # Contents of timed legs come from a process of their own: if the reference wrote them, it
        # would be warm for the leg that follows and a candidate would not (3 % of an elementwise
        # kernel).
        self._mixer = worker((self.inputs,))
        self._mixing: list[int] = []
        self._deck = TimedDeck(("own",), self._rng)
        self._mixing_hand = self._leg_hand = Hand()
        self.constant_weights: tuple[str, ...] = ()
        self.alone_ms = self._empty_ms = self._empty_until = 0.0
        self._leg_bases: list[int] = []
        with closing_on_error(self):
            self._open({} if graph is None else pointers(graph), room_bytes)
        self.reference.worker.stop()

    def settle(self) -> None:
        """Move to the timed cores and measure the reference alone."""
        if self._cores.opens_aside:
            for worker in (self.reference.worker, self._mixer.worker):
                worker.promote(self._cores.timed)
        self.alone_ms = self.measure_alone()
        calls = max(1, min(math.ceil(MIN_LEG_MS / self.alone_ms), self.max_calls()))

        def leg_ms(variant: str) -> float:
            self._deck = TimedDeck((variant,), self._rng)
            return self.reference_leg_ms(self.mixed_bases(calls))

        self._deck = TimedDeck(even_variants(self._steady, leg_ms), self._rng)
        self.reference.worker.stop()

    @property
    def num_bytes(self) -> int:
        """Shared memory that the session takes, in bytes."""
        return self.memory.total_bytes

    @property
    def has_state(self) -> bool:
        """Whether the problem has parameters or buffers."""
        return bool(self.opened.state)

    def begin_mix(self, count: int) -> None:
        """Start to fill timed sets, on the timed core, while this process does something else.

        The reference is halted before, so that no leg begins while a process is still halting.
        """
        self.reference.worker.stop()
        self._mixing = self.memory.timed_bases(count, self._rng, self._leg_bases)
        self._mixing_hand = self._deck.deal(count)
        self._mixer.begin_mix(self._mixing, self._mixing_hand.variants, secret_seed())

    def mixed_bases(self, count: int) -> list[int]:
        """Return the bases of that many sets with fresh contents, begun before or now."""
        while len(self._mixing) != count:
            if self._mixing:
                self._mixer.finish_mix()
            self.begin_mix(count)
        bases, self._mixing = self._mixing, []
        self._mixer.finish_mix()
        self._leg_bases, self._leg_hand = bases, self._mixing_hand
        return bases

    def choose(self, count: int) -> int:
        """Choose a number from 0 to count - 1, so that nobody can foresee it."""
        return int(self._rng.integers(count))

    def compared_call(self) -> int:
        """Return the call of the last leg that is to be compared, so that nobody can foresee it."""
        self._deck.compared(self._leg_hand)
        return self._leg_hand.call

    def max_calls(self) -> int:
        """Calls that one leg may have: two legs' sets fit in the pool."""
        return self.memory.num_timed // 2

    def measure_alone(self) -> float:
        """Time the reference with no candidate about, in ms per call."""
        self.reference_leg_ms(self.mixed_bases(2))
        empty = self.empty_ms()
        first = max(self.reference_leg_ms(self.mixed_bases(2)) - empty, 0.001) / 2
        calls = calls_per_leg(first, first, self.max_calls())
        legs = (self.reference_leg_ms(self.mixed_bases(calls)) for _ in range(3))
        return median(max(leg - empty, 0.001) / calls for leg in legs)

    def reference_leg_ms(self, bases: Sequence[int]) -> float:
        """Time a leg of the reference: its wall in ms, the empty round trip included."""
        with self.turn:
            return self.reference.leg_ms(bases)

    def forget_empty(self) -> None:
        """Let the empty round trip be measured anew: it cannot have been right."""
        self._empty_until = 0.0

    def empty_ms(self) -> float:
        """Return the time of the round trip of an empty leg, in ms, no older than some seconds.

        Measured on the reference for both sides: a candidate could make its own look long. Each
        trip begins after the last one's halt has settled.
        """
        if time.monotonic() < self._empty_until:
            return self._empty_ms
        trips = []
        for _ in range(EMPTY_LEGS):
            time.sleep(SETTLING_S)
            trips.append(self.reference_leg_ms([]))
        # Not the median: a trip that something disturbed would be taken off every leg.
        self._empty_ms = sorted(trips)[1]
        self._empty_until = time.monotonic() + EMPTY_VALID_S
        return self._empty_ms

    def timed_outputs(self, call: int) -> list[Array]:
        """Fetch the reference's outputs of one call of its last leg."""
        specs = self.reference.ship(call, self.memory.timed_expected_at)
        outputs = self._draws.outputs_of(specs, self._leg_bases[call])
        # The leg's inputs are mixed anew before all is compared.
        return [output.kept() if isinstance(output, Indices) else output for output in outputs]

    @property
    def ended(self) -> bool:
        """Whether its reference, or what mixes its inputs, has ended."""
        return self.reference.worker.ended or self._mixer.worker.ended

    def timed_bounds(self, call: int) -> tuple[Bound, ...]:
        """Return the errors permitted against `timed_outputs` of that call, for each output."""
        variant = self._leg_hand.variants[call]
        sizes = [spec.numel for spec in self.opened.outputs]
        return timed_bounds(self._draws.bounds, variant, sizes)

    @property
    def weights_lock(self) -> threading.Lock:
        """Held by whoever publishes weights or lets a candidate load them."""
        return self._draws.weights_lock

    def publish_weights(self, *, hidden: bool) -> None:
        """Set the weights as constructed, or the hidden ones; see `Draws.publish_weights`."""
        self._draws.publish_weights(hidden=hidden)

    def draw_checks(self, *, verification: bool = False) -> tuple[CheckSet, ...]:
        """Draw fresh check sets, the search's or those of one verification; see `Draws`."""
        return self._draws.draw_checks(verification=verification)

    def draw_in_turn(self, number: int) -> CheckSet:
        """Draw one check set anew, in place of the last one; see `Draws`."""
        return self._draws.draw_in_turn(number)

    def close(self) -> None:
        """End the workers and give the memory back."""
        self.reference.worker.end()
        self._mixer.worker.end()
        for memory in (self.inputs, self.state, self._expected):
            memory.close()

    def _open(self, pointing: Mapping[int, Pointer], room_bytes: int) -> None:
        """Load the problem, draw its sets, and measure it alone."""
        self.opened = self.reference.open(self.construction_seed)
        self.memory = MemoryPlan.of(self.opened.inputs, self.opened.outputs, room_bytes)
        self._size_memory()
        self._mixer.open(self.construction_seed, self.opened.domains)
        permitted = self._mixer.stock(secret_seed(), stock_sets(self.memory))
        self.mixed_bases(1)
        self._draws = Draws(
            self.reference,
            self.opened,
            self.memory,
            inputs=self.inputs,
            expected=self._expected,
            pointers=pointing,
            permitted=permitted,
        )
        draws = self._draws
        self.checks = draws.survey() if self.memory.in_turn else draws.draw_checks(votes=True)
        require_vote(self.problem.label, [check.voids for check in self.checks])
        self._steady = steady_variants(permitted.variants, self._draws.bounds)

    def _size_memory(self) -> None:
        require_fit(self.problem.label, self.memory.total_bytes)
        self.inputs.resize(self.memory.inputs_bytes)
        self.state.resize(max(layout(self.opened.state)[1], ALIGNMENT_BYTES))
        self._expected.resize(self.memory.expected_bytes)
        if self.has_state:
            self.reference.weights(None)
            self.state.seal_writers()
            self.constant_weights = constant_weights(self.opened.state, self.state)
        else:
            self.state.seal()


def constant_weights(specs: Sequence[ValueSpec], memory: SharedMemory) -> tuple[str, ...]:
    """Name the floating-point weights whose elements are all the same, as they are published.

    Args:
        specs: Of the parameters and buffers.
        memory: Where they lie.
    """
    names = []
    for spec in specs:
        if spec.numel and "float" in spec.dtype:
            values = Array.within(memory.bytes, spec.offset, spec.shape, spec.stride, spec.dtype)
            flat = values.chunk(0, spec.numel)
            if bool((flat == flat[0]).all()):
                names.append(spec.name)
    return tuple(names)
