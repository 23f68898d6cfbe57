"""The check: a candidate's outputs on secret inputs, compared with float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from archives.evaluation import Status
from evaluator.referee.arrays import Shaped
from evaluator.referee.candidate_process import CandidateProcess, Outputs, overlapping
from evaluator.referee.correctness import Turn, compare, mismatch_of_spec
from evaluator.referee.draws import CheckSet
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.inputs import PlannedSet
from evaluator.referee.session import Session

__all__ = ["Accuracy", "Wanted", "check", "check_sets", "mismatch_of_form"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the reference returns.

    Attributes:
        outputs: Tensors, or what says their shapes and dtypes.
        is_tuple: Whether it returns a tuple.
    """

    outputs: Sequence[Shaped]
    is_tuple: bool


class Accuracy:
    """The worst error met, with the bound that held there.

    Attributes:
        error: Worst rms error relative to the output's RMS.
        bound: The bound of that set.
        hidden_weights: Whether the candidate could be checked with weights it was not built with.
    """

    def __init__(self) -> None:
        self.error = 0.0
        self.bound = 0.0
        self.hidden_weights = True

    def note(self, error: float, bound: float) -> None:
        """Take up one output's error."""
        if error * max(self.bound, 1e-300) >= self.error * max(bound, 1e-300) or not self.bound:
            self.error, self.bound = error, bound


class Planned(Protocol):
    """A set of secret inputs."""

    @property
    def plan(self) -> PlannedSet:
        """What it is."""
        ...


S = TypeVar("S", bound=Planned)
Judge = Callable[[S, Accuracy], CandidateFailed | None]
"""Calls a candidate on a set, notes its error, and says why it is wrong, if it is."""


def check_sets(
    sets: Iterable[S],
    judge: Judge[S],
    load_weights: Callable[[], bool] | None,
    require_unchanged: Callable[[], None],
    constant_weights: Sequence[str] = (),
) -> Accuracy:
    """Check one configuration on every set.

    Args:
        sets: Secret inputs; those with hidden weights last. Each is looked at once.
        judge: Calls the candidate on a set and judges what it returned.
        load_weights: Lets the candidate load the hidden weights; None: the problem has none.
        require_unchanged: Fails a candidate that wrote to its inputs.
        constant_weights: Names of parameters and buffers that are constant as constructed.

    Returns:
        How accurate it is.

    Raises:
        CandidateFailed: It is wrong, wrote to its inputs, or failed to answer.
    """
    accuracy = Accuracy()
    for one in sets:
        if one.plan.hidden_weights and load_weights is not None:
            accuracy.hidden_weights = load_weights()
            if not accuracy.hidden_weights:
                # Parameters of other names: only what the constructor made can be compared.
                _require_telling(constant_weights)
                break
        failure = judge(one, accuracy)
        if failure is None:
            continue
        if failure.status is Status.WRONG_VALUE and judge(one, Accuracy()) is None:
            log = f"the same inputs gave a right and a wrong result. {failure.log}"
            raise CandidateFailed(Status.NON_DETERMINISTIC, "result_varies", log)
        require_unchanged()
        raise failure
    require_unchanged()
    return accuracy


def _require_telling(constant_weights: Sequence[str]) -> None:
    """Fail where a candidate could leave weights out and nothing constructed would show it."""
    if constant_weights:
        log = (
            f"the reference's {', '.join(constant_weights[:4])} cannot be loaded into ModelNew, "
            "and as constructed they are constant, so nothing shows whether they are used: give "
            "ModelNew parameters and buffers of the same names and shapes."
        )
        raise CandidateFailed(Status.WRONG_VALUE, "weights_not_loadable", log)


def check(
    session: Session,
    candidate: CandidateProcess,
    index: int,
    sets: Sequence[CheckSet],
    turn: Turn,
) -> Accuracy:
    """Check one configuration on every set; see `check_sets`.

    Args:
        session: The problem.
        candidate: A process that has opened the configuration.
        index: Its number.
        sets: Secret inputs with what they should give; those with hidden weights last.
        turn: Entered for each chunk that is compared.
    """

    def judge(one: CheckSet, accuracy: Accuracy) -> CandidateFailed | None:
        return _judge(session, candidate.call(index, one.base), one, accuracy, turn)

    def load_weights() -> bool:
        with session.weights_lock:
            return candidate.load_weights(index)

    return check_sets(
        sets,
        judge,
        load_weights if session.has_state else None,
        candidate.require_inputs_unchanged,
        session.constant_weights,
    )


def mismatch_of_form(
    outputs: Sequence[Shaped], repeats: Sequence[bool], *, is_tuple: bool, wanted: Wanted
) -> CandidateFailed | None:
    """Compare everything about outputs but their values.

    Args:
        outputs: What was returned.
        repeats: Whether each of them puts two elements in one place.
        is_tuple: Whether it was a tuple.
        wanted: What the reference returns.
    """
    if is_tuple != wanted.is_tuple:
        log = f"forward must return {'a tuple' if not is_tuple else 'one tensor'}."
        return CandidateFailed(Status.WRONG_SHAPE, "wrong_output_count", log)
    found = mismatch_of_spec(outputs, wanted.outputs)
    if found is not None:
        return CandidateFailed(found.status, found.reason, found.log)
    if any(repeats):
        return overlapping()
    return None


def _judge(
    session: Session, outputs: Outputs, one: CheckSet, accuracy: Accuracy, turn: Turn
) -> CandidateFailed | None:
    where = f"inputs {one.plan.variant!r}: "
    wanted = Wanted(
        outputs=[expected.own for expected in one.expected],
        is_tuple=session.opened.returns_tuple,
    )
    failure = mismatch_of_form(
        outputs.arrays, outputs.overlapping, is_tuple=outputs.is_tuple, wanted=wanted
    )
    if failure is not None:
        return CandidateFailed(failure.status, failure.reason, where + failure.log)
    for got, expected, bound in zip(outputs.arrays, one.expected, one.bounds, strict=True):
        deviation, found = compare(got, expected, bound, turn)
        if found is not None:
            return CandidateFailed(found.status, found.reason, where + found.log)
        accuracy.note(deviation.rms, bound.rms)
    return None
