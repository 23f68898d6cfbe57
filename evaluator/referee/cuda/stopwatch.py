"""The clock on a GPU: paired legs of reference and candidate, and what each timed call returned.

The number is what the events around each call say, in both processes by the same code, on a cold
cache. A candidate's events are believed only where the wall agrees. The process that is
not being timed is halted, or waits, and has given the device nothing. A random call of every leg
is compared with the reference's output for the same inputs, which were mixed just before; and the
candidate's copies of them must be what they were.

Covered: replayed, forgotten or reused outputs, inputs written to, work put off until after the
leg or done beside the events, a cache that is not flushed, a clock that is forged.
Not covered: a call that leaves out less than the share of calls that is compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from archives.evaluation import Status
from evaluator.referee.checking import Wanted, mismatch_of_form
from evaluator.referee.correctness import judge
from evaluator.referee.cuda.candidate import CHECK_ROOM, TIMED_ROOM, CudaCandidate, CudaOutputs, Leg
from evaluator.referee.cuda.clocks import Reading, disagreement
from evaluator.referee.cuda.monitor import Monitor
from evaluator.referee.cuda.reference import Numbers
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.effort import Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.halving import halve
from evaluator.referee.timing import (
    MAX_LEG_MS,
    Block,
    Ratio,
    estimate,
    slope_agrees,
    slope_ms,
)

__all__ = ["CudaStopwatch", "calls_per_leg"]

LEAST_MS = 1e-5
MIN_BLOCKS = 3
LEAST_LEG_MS = 2.0
"""Events need no long legs, and the wall's noise, 0.1 ms a leg, is spread over 20 calls then."""
FLUSH_MS = 0.1
"""About what flushing takes: it is part of a leg's length, not of the number."""
SLOWED_FACTOR = 1.25
"""A reference leg that much slower than the reference alone says nothing about a candidate."""
HOPELESS_SPEEDUP = 0.7
WARM_UP_MS = 20.0
WARM_UP_LEGS = 4
SLOPE_READINGS = 4
SLOPE_AGREEMENT = 1.5
LEAST_SLOPE_CALLS = 2


def calls_per_leg(reference_ms: float, candidate_ms: float, max_calls: int) -> int:
    """Decide how many calls make a leg, the flushing of the cache counted in.

    A leg of the faster side takes at least 2 ms, unless one of the slower side would take more
    than 50 ms then.

    Args:
        reference_ms: Time of a reference call, in ms.
        candidate_ms: Time of a candidate call, in ms.
        max_calls: How many timed sets there are, >= 1.
    """
    fast, slow = sorted((reference_ms + FLUSH_MS, candidate_ms + FLUSH_MS))
    wanted = min(math.ceil(LEAST_LEG_MS / fast), math.ceil(MAX_LEG_MS / slow))
    return max(1, min(max(wanted, 2), max_calls))


class CudaStopwatch:
    """Times the configurations of one candidate process; to be used under the timing gate."""

    def __init__(
        self, session: CudaSession, candidate: CudaCandidate, monitor: Monitor | None = None
    ) -> None:
        """Prepare it.

        Args:
            session: The problem.
            candidate: A process that has opened what is to be timed.
            monitor: Tells whether the GPU is being slowed; None: nothing does.
        """
        self._monitor = monitor
        self._session = session
        self._candidate = candidate
        self._max_calls = session.memory.num_timed
        self._bounds = session.timed_bounds()
        self._wanted = Wanted(outputs=session.opened.outputs, is_tuple=session.opened.returns_tuple)
        # Where there is one timed set, it takes the place of the check set.
        self._room_name = CHECK_ROOM if session.memory.in_turn else TIMED_ROOM
        self._room = candidate.give_room(self._room_name, self._max_calls)
        session.reference.trim()
        self._legs: list[Leg] = []
        self._rests_ms: list[float] = []

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs until one is left; see `halve`."""
        return halve(indices, self._candidate_call_ms, self._max_calls)

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        """Time a configuration in ABBA blocks and check what it returned meanwhile.

        Args:
            index: Number of the configuration.
            latency_ms: A first idea of its time per call.
            effort: How much to measure.

        Returns:
            The blocks that count.

        Raises:
            CandidateFailed: A timed output was wrong, an input was written to, the clocks
                disagree, or the device is too noisy to tell.
        """
        calls = self._warm_up(index, latency_ms)
        self._legs.clear()
        self._rests_ms.clear()
        kept: list[Block] = []
        for _ in range(effort.rounds):
            kept += self._undisturbed(self._round(index, calls, effort))
            if len(kept) >= MIN_BLOCKS and estimate(kept).width <= effort.max_width:
                self._require_clocks(index, calls, estimate(kept))
                return kept
        raise host_noisy("the legs of reference or candidate differ too much among themselves")

    def _round(self, index: int, calls: int, effort: Effort) -> list[Block]:
        """Time a round of blocks; fewer where they show that there is no hope."""
        found: list[Block] = []
        for _ in range(effort.blocks):
            block = self._block(index, calls)
            if self._monitor is not None and self._monitor():
                # The device is too hot, or short of power: the block does not count.
                continue
            found.append(block)
            fastest = max(block.log_ratio for block in found)
            if len(found) == effort.hopeless_blocks and fastest < math.log(HOPELESS_SPEEDUP):
                break
        return found

    def _warm_up(self, index: int, latency_ms: float) -> int:
        """Let both sides touch the memory that a leg needs, and the device reach its clock.

        Returns:
            Calls that make a leg, now that its time is known better.
        """
        session = self._session
        busy_ms = 0.0
        for _ in range(WARM_UP_LEGS):
            calls = calls_per_leg(session.alone_ms, latency_ms, self._max_calls)
            numbers = session.mix(calls, self._room)
            session.leg(calls)
            latency_ms = max(self._leg(index, numbers).events_ms / calls, LEAST_MS)
            busy_ms += (session.alone_ms + latency_ms + 2 * FLUSH_MS) * calls
            if busy_ms >= WARM_UP_MS:
                break
        return calls

    def _block(self, index: int, calls: int) -> Block:
        first = bool(self._session.choose(2))
        halves = [self._half(index, calls, reference_first=order) for order in (first, not first)]
        return Block(
            reference_ms=(halves[0][0], halves[1][0]), candidate_ms=(halves[0][1], halves[1][1])
        )

    def _half(self, index: int, calls: int, *, reference_first: bool) -> tuple[float, float]:
        """One leg of each on the same fresh inputs: ms per call of reference and candidate."""
        session = self._session
        numbers = session.mix(calls, self._room)
        if reference_first:
            reference_ms, _ = session.leg(calls)
            leg = self._leg(index, numbers)
        else:
            leg = self._leg(index, numbers)
            # The device turns to another process here, as it does for the candidate.
            reference_ms, rest_ms = session.leg(calls)
            self._rests_ms.append(rest_ms)
        self._legs.append(leg)
        self._check_leg(leg, calls)
        return max(reference_ms, LEAST_MS), max(leg.events_ms / calls, LEAST_MS)

    def _check_leg(self, leg: Leg, calls: int) -> None:
        """Compare a call of a leg, chosen at random, and the inputs of all."""
        if not self._session.reference.mixed_unchanged(self._room, calls):
            log = "forward wrote to its inputs: write to a tensor of its own instead."
            raise CandidateFailed(Status.MUTATED_INPUT, "mutated_input", log)
        call = self._session.choose(calls)
        outputs = leg.calls[call]
        failure = self._mismatch(outputs, call) if outputs.readable else None
        if outputs.readable and failure is None:
            return
        shipped = self._candidate.ship(call)
        self._candidate.stop()
        later = self._mismatch(shipped, call)
        if later is None:
            if failure is not None and failure.status is Status.WRONG_VALUE:
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
        failure = mismatch_of_form(
            outputs.specs, outputs.overlapping, is_tuple=outputs.is_tuple, wanted=self._wanted
        )
        if failure is not None:
            return failure
        deviations = self._session.reference.compare_timed(call, outputs.exported)
        for deviation, bound in zip(deviations, self._bounds, strict=True):
            found = judge(deviation, bound)
            if found is not None:
                return CandidateFailed(found.status, found.reason, found.log)
        return None

    def _undisturbed(self, blocks: Sequence[Block]) -> list[Block]:
        """Drop blocks with a slowed reference, after another look at the reference alone."""
        session = self._session
        kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        if 2 * len(kept) < len(blocks):
            # Either the device has changed its pace, or the candidate slows the reference: it is
            # halted now, so the reference tells.
            self._candidate.stop()
            session.settle()
            kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        return kept

    def _require_clocks(self, index: int, calls: int, ratio: Ratio) -> None:
        """The referee's wall must confirm the events, call for call and for legs of two sizes."""
        rest_ms = median(self._rests_ms)
        readings = [
            Reading(events_ms=leg.events_ms / calls, wall_ms=(leg.wall_ms - rest_ms) / calls)
            for leg in self._legs
        ]
        found = disagreement(readings, calls)
        if found is not None:
            raise CandidateFailed(Status.TIMING_MISMATCH, "events", found)
        more = calls - calls // 2
        if calls // 2 < LEAST_SLOPE_CALLS:
            return
        own = ratio.latency_ms + FLUSH_MS
        whole = median(leg.wall_ms for leg in self._legs)
        slopes: list[float] = []
        while len(slopes) < SLOPE_READINGS:
            half = self._leg(index, self._session.mix(calls // 2, self._room)).wall_ms
            slopes.append(slope_ms(half, whole, more))
            if slope_agrees(own, slopes):
                return
        if max(slopes) > SLOPE_AGREEMENT * max(min(slopes), LEAST_MS):
            raise host_noisy("the readings of the slope clock differ among themselves")
        log = f"{more} more calls take {median(slopes):.4g} ms each, a leg's {own:.4g} ms each."
        raise CandidateFailed(Status.TIMING_MISMATCH, "slope", log)

    def _candidate_call_ms(self, index: int, calls: int) -> float:
        leg = self._leg(index, self._session.mix(calls, self._room))
        return max(leg.events_ms / calls, LEAST_MS)

    def _leg(self, index: int, numbers: Sequence[Numbers]) -> Leg:
        return self._candidate.leg(index, self._room_name, numbers)
