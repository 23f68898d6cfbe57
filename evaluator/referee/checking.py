"""The check: a candidate's outputs on secret inputs, compared with float64."""

from __future__ import annotations

from collections.abc import Sequence

from archives.evaluation import Status
from evaluator.referee.candidate_process import CandidateProcess, Outputs
from evaluator.referee.correctness import Turn, compare, mismatch_of_spec
from evaluator.referee.draws import CheckSet
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.session import Session

__all__ = ["Accuracy", "check"]


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


def check(
    session: Session,
    candidate: CandidateProcess,
    index: int,
    sets: Sequence[CheckSet],
    turn: Turn,
) -> Accuracy:
    """Check one configuration on every set.

    Args:
        session: The problem.
        candidate: A process that has opened the configuration.
        index: Its number.
        sets: Secret inputs with what they should give; those with hidden weights last.
        turn: Entered for each chunk that is compared.

    Returns:
        How accurate it is.

    Raises:
        CandidateFailed: It is wrong, wrote to its inputs, or failed to answer.
    """
    accuracy = Accuracy()
    for one in sets:
        if one.plan.hidden_weights and session.has_state:
            with session.weights_lock:
                accuracy.hidden_weights = candidate.load_weights(index)
            if not accuracy.hidden_weights:
                # Parameters of other names: only what the constructor made can be compared.
                break
        failure = _judge(session, candidate.call(index, one.base), one, accuracy, turn)
        if failure is None:
            continue
        if failure.status is Status.WRONG_VALUE:
            again = _judge(session, candidate.call(index, one.base), one, Accuracy(), turn)
            if again is None:
                log = f"the same inputs gave a right and a wrong result. {failure.log}"
                raise CandidateFailed(Status.NON_DETERMINISTIC, "result_varies", log)
        candidate.require_inputs_unchanged()
        raise failure
    candidate.require_inputs_unchanged()
    return accuracy


def _judge(
    session: Session, outputs: Outputs, one: CheckSet, accuracy: Accuracy, turn: Turn
) -> CandidateFailed | None:
    where = f"inputs {one.plan.variant!r}: "
    if outputs.is_tuple != session.opened.returns_tuple:
        log = f"{where}forward must return {'a tuple' if not outputs.is_tuple else 'one tensor'}."
        return CandidateFailed(Status.WRONG_SHAPE, "wrong_output_count", log)
    found = mismatch_of_spec(outputs.arrays, [expected.own for expected in one.expected])
    if found is not None:
        return CandidateFailed(found.status, found.reason, where + found.log)
    if any(outputs.overlapping):
        log = f"{where}an output repeats elements in memory: return a dense tensor."
        return CandidateFailed(Status.WRONG_SHAPE, "overlapping_output", log)
    for got, expected, bound in zip(outputs.arrays, one.expected, one.bounds, strict=True):
        deviation, found = compare(got, expected, bound, turn)
        if found is not None:
            return CandidateFailed(found.status, found.reason, where + found.log)
        accuracy.note(deviation.rms, bound.rms)
    return None
