"""The clock that nobody can forge: sealed legs, seen by the reference's process.

A candidate queues its calls behind a wait before their inputs exist. The reference's process then
writes the inputs, ends the wait, and sees when the device is done. A piece of the output of a call
chosen at random is copied there and then. What this clock says is what so many right outputs took,
on cold caches, and an interpreter that is slow to launch does not lengthen it.

The number of an evaluation is still what events say, for both sides; a candidate's count as far as
this clock allows.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from archives.evaluation import Status
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.clocks import SealBases, SealedLeg
from evaluator.referee.cuda.reference import Numbers, Released
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import open_as_candidate, timed_room
from evaluator.referee.cuda.timed_outputs import TimedOutputs
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.timing import MAX_LEG_MS
from problems.errors import EvaluatorError

__all__ = ["SealedClock", "measure_bases", "open_trial"]

_LOG = logging.getLogger(__name__)

BASE_LEGS = 7
SEALED_MS = 1.0
"""Time of the calls of a leg that is aimed at: what it takes beside them is unsure by 5 us."""
SEALED_BYTES = 1 << 30
"""Inputs of a leg: with a quarter of that, calls of 44 us took 41 to 56 us by legs of four of them,
and 43.3 to 44.3 us by legs of twelve."""
PATIENCE_S = 0.3
OWN_PATIENCE_S = 2.0
"""Queueing takes 10 us a launch: who takes longer waits for the device, or has filled its queue."""
LEAST_LEGS = 3
SEALED_TRIES = 3
SLOW_COPY = 1.25
SLOW_COPY_MS = 0.1
"""A slower copy was not alone on the device: work went on before its inputs were there."""

_PLACES = 1 << 20


def open_trial(session: CudaSession, trial: CudaCandidate) -> bool:
    """Load the reference into a process as if it were a candidate; needs a share of the gate.

    Args:
        session: The problem.
        trial: A process in which no candidate's code was loaded.

    Returns:
        Whether it loads there.
    """
    try:
        open_as_candidate(session, trial, hidden=True)
    except CandidateFailed as failure:
        _warn(session, failure)
        return False
    return True


def measure_bases(session: CudaSession, trial: CudaCandidate) -> SealBases | None:
    """Measure what sealed legs take beside their calls; under the timing gate.

    Args:
        session: The problem; its reference was timed.
        trial: A process in which no candidate's code was loaded, but the reference's; `open_trial`.

    Returns:
        None where the device or the reference cannot be queued.
    """
    try:
        bases = _beside(session, trial)
    except CandidateFailed as failure:
        # It is the reference that failed in that process, not whoever is judged first.
        _warn(session, failure)
        bases = None
    session.seal_bases = bases
    if bases is None:
        return None
    # The number of a leg is another one where legs can be sealed.
    session.settle()
    legs = _trial_legs(session, trial, bases)
    singles = legs
    if legs is not None and legs[0].calls > 1:
        singles = _trial_legs(session, trial, bases, most_calls=1)
    if legs is None or singles is None:
        session.seal_bases = None
        session.settle()
        return None
    excess_ms = median(leg.call_ms for leg in legs) - session.alone_ms
    own_ms = median(leg.reference_ms for leg in legs if leg.reference_ms is not None)
    # Beside a process that waits, the device may turn from one to the other before it writes.
    beside_ms = median(leg.writing_ms - bases.writing_ms(leg.written_bytes) for leg in legs)
    return replace(
        bases,
        excess_ms=max(0.0, excess_ms),
        flush_ms=bases.flush_ms + max(0.0, beside_ms),
        elsewhere_ms=_elsewhere_ms(legs),
        single_ms=None if singles is legs else _elsewhere_ms(singles),
        own_share=own_ms / session.alone_ms,
    )


def _elsewhere_ms(legs: Sequence[SealedLeg]) -> float:
    """How much longer legs take in the trial's process than in that of the reference."""
    longer_ms = median(
        (leg.call_ms - leg.reference_ms) * leg.calls for leg in legs if leg.reference_ms is not None
    )
    return max(0.0, longer_ms)


def _trial_legs(
    session: CudaSession, trial: CudaCandidate, bases: SealBases, most_calls: int | None = None
) -> list[SealedLeg] | None:
    """Sealed legs of the reference in another process; None where there are none."""
    room_name = timed_room(session)
    try:
        room = trial.give_room(room_name, session.memory.num_timed)
        clock = SealedClock(session, trial, room_name, TimedOutputs(session, trial, room))
        clock.measure(0, session.alone_ms, bases, 1, most_calls)
        legs = clock.measure(0, session.alone_ms, bases, BASE_LEGS, most_calls)
    except CandidateFailed as failure:
        _warn(session, failure)
        return None
    return legs if all(leg.queued and leg.reference_ms is not None for leg in legs) else None


def _warn(session: CudaSession, failure: CandidateFailed) -> None:
    _LOG.warning(
        "problem %s: no leg of its reference can be sealed (%s); the wall has to do",
        session.problem.label,
        failure.reason,
    )


def _beside(session: CudaSession, trial: CudaCandidate) -> SealBases | None:
    """What legs without calls take; None where there are none."""
    reference, limit_s = session.reference, session.limit_s(1)
    owns_ms = [reference.sealed_leg(0, OWN_PATIENCE_S, limit_s) for _ in range(BASE_LEGS)]
    own_ms = [own for own in owns_ms if own is not None]
    session.mix(1, None)
    if not own_ms or reference.sealed_leg(1, OWN_PATIENCE_S, limit_s) is None:
        return None
    seen: list[Released] = []
    for _ in range(BASE_LEGS):
        ticket = reference.ticket()
        queued = trial.queue(0, "", (), ticket, PATIENCE_S)
        released = reference.release(trial.page, ticket, limit_s)
        if queued is None or released.wall_ms is None:
            return None
        seen.append(released)
    return SealBases(
        leg_ms=median(one.wall_ms for one in seen if one.wall_ms is not None),
        late_ms=median(one.late_ms for one in seen),
        flush_ms=median(one.copy_ms for one in seen),
        copy_ms_per_byte=reference.copy_ms_per_byte(),
        own_ms=median(own_ms),
    )


class SealedClock:
    """Times sealed legs of one candidate.

    Args:
        session: The problem.
        candidate: A process that has opened what is to be timed.
        room_name: Name of the room that its inputs are written to.
        outputs: Judges what its calls returned.
    """

    def __init__(
        self,
        session: CudaSession,
        candidate: CudaCandidate,
        room_name: str,
        outputs: TimedOutputs,
    ) -> None:
        self._session = session
        self._candidate = candidate
        self._room_name = room_name
        self._room = candidate.give_room(room_name, session.memory.num_timed)
        self._outputs = outputs

    def legs(
        self,
        index: int,
        latency_ms: float,
        bases: SealBases,
        count: int,
        most_calls: int | None = None,
    ) -> list[SealedLeg]:
        """Time some sealed legs on a device that has nothing else to do; see `measure`.

        A leg whose inputs were written slowly does not count: work may have begun meanwhile.

        Raises:
            CandidateFailed: As `measure`, or the device was not free to write inputs at its usual
                pace.
        """
        found: list[SealedLeg] = []
        for _ in range(SEALED_TRIES):
            legs = self.measure(index, latency_ms, bases, count, most_calls)
            found += [leg for leg in legs if not _is_slow(leg, bases)]
            if len(found) >= LEAST_LEGS or not legs[-1].queued:
                break
        if len(found) < min(LEAST_LEGS, len(legs)):
            took_ms, usual_ms = legs[-1].writing_ms, bases.writing_ms(legs[-1].written_bytes)
            log = f"writing inputs took {took_ms:.3g} ms, not {usual_ms:.3g}: the device was busy"
            raise host_noisy(log)
        return found

    def measure(
        self,
        index: int,
        latency_ms: float,
        bases: SealBases,
        count: int,
        most_calls: int | None = None,
    ) -> list[SealedLeg]:
        """Time some sealed legs.

        Args:
            index: Number of the configuration.
            latency_ms: Time of one of its calls.
            bases: What legs take beside their calls.
            count: How many legs.
            most_calls: Calls of a leg at most; None: as many as make it last a millisecond.

        Raises:
            CandidateFailed: An output was wrong or late, or the leg never ended.
        """
        memory = self._session.memory
        fast_ms, slow_ms = sorted((latency_ms, self._session.alone_ms))
        wanted = min(math.ceil(SEALED_MS / fast_ms), math.ceil(MAX_LEG_MS / slow_ms))
        queueable = self._session.most_sealed_calls or memory.num_timed
        most = min(queueable, memory.num_timed, most_calls or memory.num_timed)
        calls = max(1, min(wanted, most, SEALED_BYTES // memory.set_bytes))
        found: list[SealedLeg] = []
        while len(found) < count:
            numbers = self._session.mix(calls, None)
            reference_ms = self._reference_ms(calls, bases)
            if reference_ms is None and calls > 1:
                # The queue is full of its launches: fewer calls fit.
                calls = _fewer(calls)
                continue
            leg = replace(self._leg(index, numbers, bases), reference_ms=reference_ms)
            found.append(leg)
            if not leg.queued:
                if calls == 1 or len(found) > 1:
                    break
                # Its launches may have filled the queue: fewer of them fit.
                calls = _fewer(calls)
        return found

    def _reference_ms(self, calls: int, bases: SealBases) -> float | None:
        """Let the reference give its outputs, and time it; None where it cannot be queued.

        Where it cannot queue so many calls, that is noted for legs to come.
        """
        session = self._session
        limit_s = session.limit_s(calls)
        wall_ms = session.reference.sealed_leg(calls, OWN_PATIENCE_S, limit_s)
        if wall_ms is None:
            session.most_sealed_calls = _fewer(calls)
            return None
        return max(wall_ms - bases.own_ms, 0.0) / calls

    def _leg(self, index: int, numbers: Sequence[Numbers], bases: SealBases) -> SealedLeg:
        """A candidate's leg on the inputs mixed last."""
        session, candidate, calls = self._session, self._candidate, len(numbers)
        limit_s = session.limit_s(calls)
        call = session.compared_call()
        ticket = session.reference.ticket()
        try:
            queued = candidate.queue(index, self._room_name, numbers, ticket, PATIENCE_S)
            looked_at = queued is not None and self._outputs.formed(queued[call])
            started = time.perf_counter()
            released = session.reference.release(
                candidate.page,
                ticket,
                limit_s,
                room=self._room,
                calls=calls,
                call=call,
                at=session.choose(_PLACES) / _PLACES,
                outputs=queued[call].exported if queued is not None and looked_at else (),
            )
        except (CandidateFailed, EvaluatorError):
            # It may not have been let go: it cannot be asked anything then.
            candidate.end()
            raise
        if released.wall_ms is None:
            if queued is None and candidate.answered:
                candidate.queued()
            candidate.end()
            log = f"the device was not done with {calls} calls after {limit_s:.0f} s: it may hang."
            raise CandidateFailed(Status.TIMEOUT, "timeout_in_leg", log)
        returned = candidate.queued() if queued is None else queued
        wall_ms = released.wall_ms
        if queued is None:
            # Its process runs meanwhile and could set the second word itself: its reply counts.
            replied_ms = 1000 * (time.perf_counter() - started) - released.copy_ms
            wall_ms = max(wall_ms, replied_ms)
        candidate.stop()
        seen = released.deviations if looked_at else None
        self._outputs.require_right(returned[call], call, calls, seen)
        late_ms = max(0.0, released.late_ms - bases.late_ms) if looked_at else 0.0
        return SealedLeg(
            call_ms=max(wall_ms + late_ms - bases.leg_ms, 0.0) / calls,
            calls=calls,
            queued=queued is not None,
            writing_ms=released.copy_ms,
            written_bytes=calls * session.memory.set_bytes,
        )


def _is_slow(leg: SealedLeg, bases: SealBases) -> bool:
    """Whether the device was not free while a leg's inputs were written."""
    usual_ms = bases.writing_ms(leg.written_bytes)
    return leg.writing_ms > SLOW_COPY * usual_ms + SLOW_COPY_MS


def _fewer(calls: int) -> int:
    return max(1, calls // 4)
