"""One problem on one referee: its reference worker, its secret inputs, what they should give."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from evaluator.referee.arrays import Array
from evaluator.referee.correctness import Bound, Expected, bound_of, finite_mean, null_passes
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets, memory_bytes
from evaluator.referee.inputs import CHECK_PLAN, MemoryPlan, PlannedSet, secret_seed
from evaluator.referee.reference import ReferenceWorker
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.timing import calls_per_leg
from evaluator.wire import ALIGNMENT_BYTES, ValueSpec, layout
from problems.errors import ProblemError
from problems.problem import Problem

__all__ = ["CheckSet", "Session", "row_major"]

EMPTY_LEGS = 7
SETTLING_S = 0.002
"""A halted process needs some time until it stands."""
STOCK_SETS = 4
"""Sets in the reservoir that timed contents are mixed from."""
TIMED_SLACK = 2.0
"""Timed contents are compared with the float32 reference, whose error adds to the candidate's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSet:
    """One input set with what it should give.

    Attributes:
        plan: What it is.
        base: Where its inputs lie.
        expected: What each output should be.
        bounds: The error permitted for each output.
        voids: For each output, what would pass without computing anything, or None.
    """

    plan: PlannedSet
    base: int
    expected: tuple[Expected, ...]
    bounds: tuple[Bound, ...]
    voids: tuple[str | None, ...]


class Session:
    """A problem that candidates are judged on. To be used under the timing gate, unless stated."""

    def __init__(
        self, problem: Problem, spawner: Spawner, cores: CoreSets, deadlines: Deadlines
    ) -> None:
        """Open the problem: start its reference worker, draw its sets, measure it alone.

        Raises:
            ProblemError: It does not load or run, does not fit in memory, or cannot be judged.
            EvaluatorError: The reference worker could not be started or ended.
        """
        self.problem = problem
        self.construction_seed = secret_seed()
        self.inputs = SharedMemory("inputs")
        self.state = SharedMemory("state")
        self._expected = SharedMemory("expected")
        self._rng = np.random.default_rng(secret_seed())
        self.evaluations = 0
        self.weights_lock = threading.Lock()
        self.checks_lock = threading.Lock()
        self.verification_lock = threading.Lock()
        files = (self.inputs, self.state, self._expected)

        def worker(memory: tuple[SharedMemory, ...]) -> ReferenceWorker:
            plan = WorkerPlan(
                role="reference",
                cpus=cores.timed,
                threads=cores.threads,
                memory_bytes=None,
                memory=memory,
                timed=True,
            )
            return ReferenceWorker(spawner.spawn(plan), problem, deadlines)

        self.reference = worker(files)
        # Contents of timed legs come from a process of their own: if the reference wrote them, it
        # would be warm for the leg that follows and a candidate would not (3 % of an elementwise
        # kernel).
        self._mixer = worker((self.inputs,))
        try:
            self.opened = self.reference.open(self.construction_seed)
            self.memory = MemoryPlan.of(self.opened.inputs, self.opened.outputs)
            self._size_memory()
            self._mixer.open(self.construction_seed, self.opened.domains)
            self._mixer.stock(secret_seed(), STOCK_SETS)
            self.mixed_bases(1)
            self.checks = self.draw_checks()
            self._require_vote(self.checks)
            self.alone_ms = self.measure_alone()
        except BaseException:
            self.close()
            raise
        self.reference.worker.stop()

    @property
    def num_bytes(self) -> int:
        """Shared memory that the session takes, in bytes."""
        return self.memory.total_bytes

    @property
    def has_state(self) -> bool:
        """Whether the problem has parameters or buffers."""
        return bool(self.opened.state)

    def draw_checks(self, *, verification: bool = False) -> tuple[CheckSet, ...]:
        """Draw fresh check sets, the search's or those of one verification.

        The weights of the last set, the hidden ones, stay published.
        """
        first = self.memory.num_checks if verification else 0
        drawn: list[tuple[PlannedSet, int, tuple[Expected, ...]]] = []
        with self.weights_lock:
            self.publish_weights(hidden=False)
            for number, planned in enumerate(CHECK_PLAN, start=first):
                if planned.hidden_weights:
                    self.publish_weights(hidden=True)
                drawn.append((planned, *self._draw(planned, number)))
                self.inputs.seal_writers()
        bounds = self._bounds([(planned, expected) for planned, _, expected in drawn])
        means = [[finite_mean(output.exact) for output in expected] for _, _, expected in drawn]
        return tuple(
            CheckSet(
                plan=planned,
                base=base,
                expected=expected,
                bounds=bounds[planned.variant],
                voids=self._voids(
                    base, expected, bounds[planned.variant], means[:number] + means[number + 1 :]
                ),
            )
            for number, (planned, base, expected) in enumerate(drawn)
        )

    def mixed_bases(self, count: int) -> list[int]:
        """Fill timed sets with fresh contents and return their bases.

        The reference is halted before, so that no leg begins while a process is still halting.
        """
        self.reference.worker.stop()
        bases = self.memory.timed_bases(count, self._rng)
        self._mixer.mix(bases, secret_seed())
        return bases

    def choose(self, count: int) -> int:
        """Choose a number from 0 to count - 1, so that nobody can foresee it."""
        return int(self._rng.integers(count))

    def max_calls(self) -> int:
        """Calls that one leg may have: two legs' sets fit in the pool."""
        return self.memory.num_timed // 2

    def measure_alone(self) -> float:
        """Time the reference with no candidate about, in ms per call."""
        self.reference.leg_ms(self.mixed_bases(2))
        empty = self.measure_empty()
        first = max(self.reference.leg_ms(self.mixed_bases(2)) - empty, 0.001) / 2
        calls = calls_per_leg(first, first, self.max_calls())
        legs = (self.reference.leg_ms(self.mixed_bases(calls)) for _ in range(3))
        return median(max(leg - empty, 0.001) / calls for leg in legs)

    def measure_empty(self) -> float:
        """Time the round trip of an empty leg, in ms, each after the last one's halt has settled.

        Measured on the reference for both sides: a candidate could make its own look long.
        """
        trips = []
        for _ in range(EMPTY_LEGS):
            time.sleep(SETTLING_S)
            trips.append(self.reference.leg_ms([]))
        return median(trips)

    def timed_outputs(self, call: int) -> list[Array]:
        """Fetch the reference's outputs of one call of its last leg."""
        specs = self.reference.ship(call, self.memory.timed_expected_at)
        return [self._array(spec) for spec in specs]

    def timed_bounds(self) -> tuple[Bound, ...]:
        """Return the errors permitted against `timed_outputs`, for each output."""
        own = next(check for check in self.checks if check.plan.variant == "own")
        return tuple(Bound(rms=TIMED_SLACK * b.rms, peak=TIMED_SLACK * b.peak) for b in own.bounds)

    def publish_weights(self, *, hidden: bool) -> None:
        """Set the weights as constructed, or the hidden ones; to be called with `weights_lock`.

        The reference worker computes with what is published, and candidates load it.
        """
        if self.has_state:
            self.reference.weights(self._hidden_seed if hidden else None)

    def close(self) -> None:
        """End the workers and give the memory back."""
        self.reference.worker.end()
        self._mixer.worker.end()
        for memory in (self.inputs, self.state, self._expected):
            memory.close()

    def _size_memory(self) -> None:
        needed, available = self.memory.total_bytes, memory_bytes()
        if needed > available:
            raise ProblemError(
                f"problem {self.problem.label} needs {needed} bytes of memory, "
                f"{available} are available: use a smaller scale"
            )
        self.inputs.resize(self.memory.inputs_bytes)
        self.state.resize(max(layout(self.opened.state)[1], ALIGNMENT_BYTES))
        self._expected.resize(self.memory.expected_bytes)
        self._hidden_seed = secret_seed()
        if self.has_state:
            self.reference.weights(None)
            self.state.seal_writers()
        else:
            self.state.seal()

    def _draw(self, planned: PlannedSet, number: int) -> tuple[int, tuple[Expected, ...]]:
        base = self.memory.check_base(number)
        exact_at, own_at = self.memory.expected_at(number)
        self.reference.draw(base, secret_seed(), planned.variant)
        exact = self.reference.expect(base, exact_at)
        own = self.reference.call(base, own_at)
        return base, tuple(
            Expected.of(self._array(e), self._array(o)) for e, o in zip(exact, own, strict=True)
        )

    def _bounds(
        self, drawn: Sequence[tuple[PlannedSet, tuple[Expected, ...]]]
    ) -> dict[str, tuple[Bound, ...]]:
        """Bounds of each distribution: from the reference's worst error over its sets."""
        bounds = {}
        for variant in {planned.variant for planned, _ in drawn}:
            sets = [expected for planned, expected in drawn if planned.variant == variant]
            bounds[variant] = tuple(
                bound_of([output.deviation for output in outputs], outputs[0].own.dtype)
                for outputs in zip(*sets, strict=True)
            )
        return bounds

    def _voids(
        self,
        base: int,
        expected: Sequence[Expected],
        bounds: Sequence[Bound],
        other_means: Sequence[Sequence[float]],
    ) -> tuple[str | None, ...]:
        """What would pass for each output of a set; `other_means` are those of the other sets."""
        inputs = [
            Array.within(self.inputs.bytes, base + s.offset, s.shape, s.stride, s.dtype)
            for s in self.opened.inputs
            if not s.dtype.startswith("python:")
        ]
        return tuple(
            null_passes(output, bound, inputs, constants)
            for output, bound, constants in zip(
                expected, bounds, zip(*other_means, strict=True), strict=True
            )
        )

    def _require_vote(self, checks: Sequence[CheckSet]) -> None:
        """Each output must be judged by a set on which only computing it passes."""
        for number, voids in enumerate(zip(*(check.voids for check in checks), strict=True)):
            if None not in voids:
                found = " or ".join(sorted(void for void in set(voids) if void is not None))
                raise ProblemError(
                    f"problem {self.problem.label} cannot be judged (null_gate): {found} would "
                    f"pass for output {number} on every input set: change its inputs"
                )

    def _array(self, spec: ValueSpec) -> Array:
        return Array.within(
            self._expected.bytes, spec.offset, spec.shape, row_major(spec.shape), spec.dtype
        )


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor that is laid out row after row."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
