"""Check sets of a problem on a GPU: how they are drawn, and what they permit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from evaluator.referee.arena import Weighted
from evaluator.referee.correctness import Bound, Deviation, bound_of, judge
from evaluator.referee.cuda.reference import CudaReference
from evaluator.referee.inputs import PlannedSet, check_plan, secret_seed
from evaluator.referee.reference import OpenedProblem
from evaluator.referee.votes import draws_for_bounds
from evaluator.values import Permitted
from evaluator.wire import ValueSpec
from problems.errors import EvaluatorError, WorkerDied

__all__ = ["CudaCheckSet", "CudaDraws", "Piece"]

MAX_FREE_SHARE = 0.1

Piece = Callable[[], AbstractContextManager[None]]
"""Entered for each piece of work on the device, between which others may use it."""
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


class CudaDraws:
    """Draws a problem's check sets with its reference worker.

    To be used with a share of the gate; `survey` takes its own.

    Attributes:
        bounds: The errors permitted on each distribution, for each output.
    """

    def __init__(
        self,
        reference: CudaReference,
        opened: OpenedProblem,
        weights: Weighted,
        permitted: Permitted,
    ) -> None:
        """Prepare it; nothing is drawn yet.

        Args:
            reference: Has opened the problem.
            opened: What it found.
            weights: Publishes those that the reference computes with.
            permitted: What the problem's inputs may be.
        """
        self.bounds: dict[str, tuple[Bound, ...]] = {}
        self._reference = reference
        self._opened = opened
        self._weights = weights
        self._runs = permitted.runs
        self._plan = check_plan(permitted)
        self._draws_for_bounds = draws_for_bounds([spec.numel for spec in opened.outputs])

    def draw_checks(
        self, *, verification: bool = False, votes: bool = False
    ) -> tuple[CudaCheckSet, ...]:
        """Draw fresh check sets side by side, the search's or a verification's; maybe their votes.

        The hidden weights stay published.
        """
        first = len(self._plan) if verification else 0
        found: list[tuple[list[Deviation], list[float]]] = []
        errors: list[_Errors] = []
        with self._weights.weights_lock, _ended_where_it_fails(self._reference):
            self._weights.publish_weights(hidden=False)
            for number, planned in enumerate(self._plan, start=first):
                if planned.hidden_weights:
                    self._weights.publish_weights(hidden=True)
                several = [self._draw(planned, number) for _ in range(self._draws_for_bounds)]
                errors += [(planned.variant, deviations) for deviations, _ in several]
                found.append(several[-1])  # The others made room for it.
        bounds = _bounds_by_variant(self._opened.outputs, errors)
        if not verification:
            self.bounds = bounds
        if not votes:
            numbered = enumerate(self._plan, start=first)
            return tuple(_unvoted(number, one, bounds[one.variant]) for number, one in numbered)
        means = [mean for _, mean in found]
        return tuple(
            _voted(
                self._reference,
                first + at,
                one,
                bounds[one.variant],
                means[:at] + means[at + 1 :],
                found[at][0],
            )
            for at, one in enumerate(self._plan)
        )

    @property
    def checks_in_turn(self) -> tuple[CudaCheckSet, ...]:
        """The sets of the plan that have one place, as surveyed; each is yet to be drawn."""
        return tuple(_unvoted(0, one, self.bounds[one.variant]) for one in self._plan)

    def draw_in_turn(self, at: int) -> CudaCheckSet:
        """Draw one check set of the plan anew, in place of the last one.

        What is permitted on it rests on the reference's error on this set, too: where a few
        elements decide, as in a softmax of outliers, that differs much from draw to draw.
        """
        planned = self._plan[at]
        own, _ = self._draw_alone(planned, nullcontext)
        here = _bounds_of(self._opened.outputs, [own])
        bounds = map(_wider, self.bounds[planned.variant], here)
        return _unvoted(0, planned, tuple(bounds))

    def survey(self, piece: Piece) -> tuple[CudaCheckSet, ...]:
        """Draw all check sets in turn, for their bounds and their votes; the first one twice.

        The votes on a set are about the means of those before it, on the first about the others'.

        Args:
            piece: Entered for each of them.
        """
        outputs = self._opened.outputs
        found: list[tuple[list[Deviation], list[float]]] = []
        errors: list[_Errors] = []
        checks = []
        for planned in self._plan:
            means = [mean for _, mean in found]
            several = [self._draw_alone(planned, piece) for _ in range(self._draws_for_bounds)]
            errors += [(planned.variant, deviations) for deviations, _ in several]
            found.append(several[-1])
            own, _ = found[-1]
            with piece():
                bounds = _bounds_of(outputs, [own])
                checks.append(_voted(self._reference, 0, planned, bounds, means, own))
        others = [mean for _, mean in found[1:]]
        first = self._plan[0]
        again, _ = self._draw_alone(first, piece)
        with piece():
            bounds = _bounds_of(outputs, [again])
            checks[0] = _voted(self._reference, 0, first, bounds, others, again)
        self.bounds = _bounds_by_variant(outputs, errors)
        return tuple(checks)

    def _draw(self, planned: PlannedSet, number: int) -> tuple[list[Deviation], list[float]]:
        self._reference.draw(number, secret_seed(), planned.variant, runs=self._runs)
        return self._reference.expect(number)

    def _draw_alone(self, planned: PlannedSet, piece: Piece) -> tuple[list[Deviation], list[float]]:
        """Draw a set into the one place; the hidden weights stay published afterwards."""
        with piece(), self._weights.weights_lock:
            if planned.hidden_weights:
                return self._draw(planned, 0)
            self._weights.publish_weights(hidden=False)
            try:
                return self._draw(planned, 0)
            finally:
                # Others may be between two sets, or wait to be timed, with the hidden ones.
                self._weights.publish_weights(hidden=True)


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


def _bounds_by_variant(
    outputs: Sequence[ValueSpec], errors: Sequence[_Errors]
) -> dict[str, tuple[Bound, ...]]:
    """The bounds of each distribution: from the reference's worst error over its sets."""
    bounds = {}
    for variant in {variant for variant, _ in errors}:
        bounds[variant] = _bounds_of(outputs, [found for one, found in errors if one == variant])
    return bounds


def _bounds_of(outputs: Sequence[ValueSpec], sets: list[list[Deviation]]) -> tuple[Bound, ...]:
    """The bound of each output from the reference's errors on sets of one distribution."""
    return tuple(
        bound_of(owns, spec.dtype)
        for spec, owns in zip(outputs, zip(*sets, strict=True), strict=True)
    )


def _wider(one: Bound, other: Bound) -> Bound:
    """The bound that permits what either does."""
    return Bound(rms=max(one.rms, other.rms), peak=max(one.peak, other.peak))


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
