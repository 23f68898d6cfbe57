"""What timed calls returned, compared with what the reference returned for the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

from archives.evaluation import Status
from evaluator.referee.checking import Wanted, mismatch_of_form
from evaluator.referee.correctness import Deviation, judge
from evaluator.referee.cuda.candidate import CudaCandidate, CudaOutputs, unreadable
from evaluator.referee.cuda.reference import Room
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.failure import CandidateFailed

__all__ = ["TimedOutputs"]


class TimedOutputs:
    """Judges legs of one candidate; the reference has run on the same inputs.

    Args:
        session: The problem.
        candidate: The process.
        room: Where the inputs of its legs are.
    """

    def __init__(self, session: CudaSession, candidate: CudaCandidate, room: Room) -> None:
        self._session = session
        self._candidate = candidate
        self._room = room
        self._wanted = Wanted(outputs=session.opened.outputs, is_tuple=session.opened.returns_tuple)

    def formed(self, outputs: CudaOutputs) -> bool:
        """Tell whether outputs can be read and have the form that is wanted."""
        return outputs.readable and self._mismatch_of_form(outputs) is None

    def require_right(
        self,
        outputs: CudaOutputs,
        call: int,
        calls: int,
        seen: Sequence[Deviation] | None = None,
    ) -> None:
        """Compare a call of the last leg, chosen at random, and the inputs of all.

        Args:
            outputs: What the call is said to have returned.
            call: Its number.
            calls: Calls of the leg.
            seen: How far the outputs were off when the clock stopped; None: they are looked at now.

        Raises:
            CandidateFailed: They are wrong, came late, or an input was written to.
        """
        if not self._session.reference.mixed_unchanged(self._room, calls):
            log = "forward wrote to its inputs: write to a tensor of its own instead."
            raise CandidateFailed(Status.MUTATED_INPUT, "mutated_input", log)
        if not outputs.readable:
            raise unreadable()
        if seen is not None:
            failure = self._mismatch_of_values(seen, call)
        else:
            failure = self._mismatch(outputs, call)
        if failure is None:
            return
        shipped = self._candidate.ship(call)
        self._candidate.stop()
        later = self._mismatch(shipped, call)
        if later is None:
            if failure.status is Status.WRONG_VALUE:
                log = "an output was not there yet when the clock stopped: compute in forward."
                raise CandidateFailed(Status.TIMING_MISMATCH, "deferred_work", log)
            return
        if call != calls - 1 and self._mismatch(shipped, calls - 1) is None:
            log = "an output was overwritten by a later call: return a new tensor each time."
            raise CandidateFailed(Status.WRONG_VALUE, "output_reused", log)
        wrong = later.status is Status.WRONG_VALUE
        reason = "wrong_when_timed" if wrong else later.reason
        raise CandidateFailed(later.status, reason, f"while it was timed, {later.log}")

    def _mismatch(self, outputs: CudaOutputs, call: int) -> CandidateFailed | None:
        failure = self._mismatch_of_form(outputs)
        if failure is not None:
            return failure
        deviations = self._session.reference.compare_timed(call, outputs.exported)
        return self._mismatch_of_values(deviations, call)

    def _mismatch_of_form(self, outputs: CudaOutputs) -> CandidateFailed | None:
        return mismatch_of_form(
            outputs.specs, outputs.overlapping, is_tuple=outputs.is_tuple, wanted=self._wanted
        )

    def _mismatch_of_values(
        self, deviations: Sequence[Deviation], call: int
    ) -> CandidateFailed | None:
        for deviation, bound in zip(deviations, self._session.timed_bounds(call), strict=True):
            found = judge(deviation, bound)
            if found is not None:
                return CandidateFailed(found.status, found.reason, found.log)
        return None
