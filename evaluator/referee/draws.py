"""Check sets: how they are drawn, and what they should give."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evaluator.referee.arrays import Array
from evaluator.referee.correctness import Bound, Expected, finite_mean
from evaluator.referee.indices import Indices, Pointer
from evaluator.referee.inputs import MemoryPlan, PlannedSet, check_plan, secret_seed
from evaluator.referee.reference import OpenedProblem, ReferenceWorker
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.votes import bounds_by_variant, draws_for_bounds, voids_of
from evaluator.values import Permitted
from evaluator.wire import ValueSpec

__all__ = ["CheckSet", "Draws", "row_major"]


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


class Draws:
    """Draws a problem's check sets with its reference worker. To be used under the timing gate.

    Attributes:
        bounds: The errors permitted on each distribution, for each output.
        weights_lock: Held by whoever publishes weights or lets a candidate load them.
    """

    def __init__(
        self,
        reference: ReferenceWorker,
        opened: OpenedProblem,
        memory: MemoryPlan,
        *,
        inputs: SharedMemory,
        expected: SharedMemory,
        pointers: Mapping[int, Pointer],
        permitted: Permitted,
    ) -> None:
        """Prepare it; nothing is drawn yet.

        Args:
            reference: Has opened the problem.
            opened: What it found.
            memory: Where sets and outputs lie.
            inputs: The shared file of inputs.
            expected: The shared file of expected outputs.
            pointers: Outputs that are indices into an input, by number.
            permitted: What the problem's inputs may be.
        """
        self.bounds: dict[str, tuple[Bound, ...]] = {}
        self.weights_lock = threading.Lock()
        self._runs = permitted.runs
        self._plan = check_plan(permitted)
        self._reference = reference
        self._opened = opened
        self._memory = memory
        self._inputs = inputs
        self._expected = expected
        self._pointers = pointers
        self._hidden_seed = secret_seed()
        self._draws_for_bounds = draws_for_bounds([spec.numel for spec in opened.outputs])

    def publish_weights(self, *, hidden: bool) -> None:
        """Set the weights as constructed, or the hidden ones; to be called with `weights_lock`.

        The reference worker computes with what is published, and candidates load it.
        """
        if self._opened.state:
            self._reference.weights(self._hidden_seed if hidden else None)

    def draw_checks(
        self, *, verification: bool = False, votes: bool = False
    ) -> tuple[CheckSet, ...]:
        """Draw fresh check sets side by side, the search's or a verification's; maybe their votes.

        The weights of the last set, the hidden ones, stay published.
        """
        first = len(self._plan) if verification else 0
        drawn: list[tuple[PlannedSet, int, tuple[Expected, ...]]] = []
        errors: list[tuple[str, tuple[Expected, ...]]] = []
        with self.weights_lock:
            self.publish_weights(hidden=False)
            for number, planned in enumerate(self._plan, start=first):
                if planned.hidden_weights:
                    self.publish_weights(hidden=True)
                several = [self._draw(planned, number) for _ in range(self._draws_for_bounds)]
                errors += [(planned.variant, expected) for _, expected in several]
                drawn.append((planned, *several[-1]))  # The others made room for it.
                self._inputs.seal_writers()
        bounds = bounds_by_variant(errors)
        if not verification:
            self.bounds = bounds
        checks = tuple(
            _unvoted(planned, base, expected, bounds[planned.variant])
            for planned, base, expected in drawn
        )
        if not votes:
            return checks
        means = [[finite_mean(output.exact) for output in check.expected] for check in checks]
        return tuple(
            self._voted(check, means[:number] + means[number + 1 :])
            for number, check in enumerate(checks)
        )

    def draw_in_turn(self, number: int) -> CheckSet:
        """Draw one check set anew, in place of the last one.

        Args:
            number: Which one of the plan.
        """
        planned = self._plan[number]
        base, expected = self._draw_alone(planned)
        return _unvoted(planned, base, expected, self.bounds[planned.variant])

    def survey(self) -> tuple[CheckSet, ...]:
        """Draw all check sets in turn, twice: for their bounds, then for their votes.

        What the sets that are returned should give is in memory no more.
        """
        first = []
        means = []
        for planned in self._plan:
            several = [self._draw_alone(planned)[1] for _ in range(self._draws_for_bounds)]
            first += [(planned.variant, expected) for expected in several]
            expected = several[-1]
            means.append([finite_mean(output.exact) for output in expected])
        self.bounds = bounds_by_variant(first)
        checks = []
        for number in range(len(self._plan)):
            others = means[:number] + means[number + 1 :]
            checks.append(self._voted(self.draw_in_turn(number), others))
        return tuple(checks)

    def _voted(self, check: CheckSet, other_means: Sequence[Sequence[float]]) -> CheckSet:
        """A set with what would pass on it without computing anything."""
        inputs = self._input_arrays(check.base)
        return replace(check, voids=voids_of(check.expected, check.bounds, inputs, other_means))

    def outputs_of(self, specs: Sequence[ValueSpec], base: int) -> list[Array]:
        """Return outputs of the reference; indices know the values that they point at.

        Args:
            specs: Where the reference has written them.
            base: Where the inputs lie that it was given.
        """
        outputs = self._plain_outputs(specs)
        for number, pointer in self._pointers.items():
            source = self._array(self._opened.inputs[pointer.input_number], base)
            outputs[number] = Indices.of_output(outputs[number], source, pointer.dimension)
        return outputs

    def _draw_alone(self, planned: PlannedSet) -> tuple[int, tuple[Expected, ...]]:
        """Draw a set into the first place; the hidden weights stay published afterwards."""
        with self.weights_lock:
            if not planned.hidden_weights:
                self.publish_weights(hidden=False)
            drawn = self._draw(planned, 0)
            self.publish_weights(hidden=True)
        self._inputs.seal_writers()
        return drawn

    def _draw(self, planned: PlannedSet, number: int) -> tuple[int, tuple[Expected, ...]]:
        base = self._memory.check_base(number)
        exact_at, own_at = self._memory.expected_at(number)
        self._reference.draw(base, secret_seed(), planned.variant, runs=self._runs)
        exact = self._reference.expect(base, exact_at)
        own = self._reference.call(base, own_at)
        pairs = zip(self.outputs_of(exact, base), self._plain_outputs(own), strict=True)
        return base, tuple(Expected.of(*pair) for pair in pairs)

    def _plain_outputs(self, specs: Sequence[ValueSpec]) -> list[Array]:
        memory = self._expected.bytes
        return [
            Array.within(memory, spec.offset, spec.shape, row_major(spec.shape), spec.dtype)
            for spec in specs
        ]

    def _input_arrays(self, base: int) -> list[Array]:
        """The tensors of an input set."""
        specs = [spec for spec in self._opened.inputs if not spec.dtype.startswith("python:")]
        return [self._array(spec, base) for spec in specs]

    def _array(self, spec: ValueSpec, base: int) -> Array:
        memory = self._inputs.bytes
        return Array.within(memory, base + spec.offset, spec.shape, spec.stride, spec.dtype)


def _unvoted(
    planned: PlannedSet, base: int, expected: tuple[Expected, ...], bounds: tuple[Bound, ...]
) -> CheckSet:
    """A set of a problem whose sets were found to prove something, or will be."""
    voids = (None,) * len(expected)
    return CheckSet(plan=planned, base=base, expected=expected, bounds=bounds, voids=voids)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor that is laid out row after row."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
