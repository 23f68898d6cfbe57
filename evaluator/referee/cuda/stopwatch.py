"""The clock on a GPU: paired legs of reference and candidate, and what each timed call returned.

The number is what the events around each call say, in both processes by the same code, on a cold
cache. A candidate's events are believed only where the wall agrees. The process that is
not being timed is halted, or waits, and has given the device nothing. A random call of every leg
is compared with the reference's output for the same inputs, which were mixed just before; and the
candidate's copies of them must be what they were.

Covered: replayed, forgotten or reused outputs, inputs written to, work put off until after the
leg or done beside the events, work for several calls done in one, a cache that is not flushed, a
clock that is forged.
Not covered: a call that leaves out less than the share of calls that is compared.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from archives.evaluation import Status
from evaluator.referee.cuda.candidate import CudaCandidate, Leg
from evaluator.referee.cuda.clocks import Reading, SealedLeg, disagreement, shortfall
from evaluator.referee.cuda.monitor import NOTHING_SEEN, Monitor
from evaluator.referee.cuda.pairs import unconfirmed
from evaluator.referee.cuda.reference import Numbers
from evaluator.referee.cuda.sealed import SealedClock
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import timed_room
from evaluator.referee.cuda.timed_outputs import TimedOutputs
from evaluator.referee.effort import HOPELESS_SPEEDUP, Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.halving import halve
from evaluator.referee.single_calls import LEAST_CLAIM, held_to_single_calls
from evaluator.referee.timing import (
    LEAST_MS,
    MAX_LEG_MS,
    Block,
    Ratio,
    estimate,
    slope_agrees,
    slope_ms,
)

__all__ = ["CudaStopwatch", "calls_per_leg"]

MIN_BLOCKS = 3
LEAST_LEG_MS = 2.0
"""Events need no long legs, and the wall's noise, 0.1 ms a leg, is spread over 20 calls then."""
LEAST_KERNEL_MS = 0.0005
"""No kernel runs in less: those that do nothing take 1 us and more. Calls of a leg whose work was
all done in one of them take what events say of nothing."""
FLUSH_MS = 0.1
"""About what flushing takes: it is part of a leg's length, not of the number."""
SHORT_LEG_MS = 0.002
"""What the first call of a leg differs by from others, by events."""
SLOWED_FACTOR = 1.25
"""A reference leg that much slower than the reference alone says nothing about a candidate."""
DISTURBED_PAUSE_S = 0.05
WARM_UP_MS = 20.0
WARM_UP_LEGS = 4
SLOPE_READINGS = 4
SLOPE_AGREEMENT = 1.5
LEAST_SLOPE_CALLS = 2
SEALED_ROUNDS = 2
LEAST_SEALED_LEGS = 3
FORGED_FACTOR = 1.25
"""Sealed legs that are longer by less may have been disturbed by what else runs on the host: they
are tried twice more, and then the candidate counts as this clock has it. A forger gains no more by
that than by agreeing with the clock."""
DISTURBED_ROUNDS = 2
SHORT_CALL_MS = 0.5
"""Of longer calls one clock tells what the events may say at least; of these, the ratio of two."""


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
    """Times the configurations of one candidate process; to be used under the timing gate.

    Attributes:
        conditions: What the blocks ran under.
    """

    def __init__(
        self,
        session: CudaSession,
        candidate: CudaCandidate,
        monitor: Monitor | None = None,
        *,
        is_trusted: bool = False,
    ) -> None:
        """Prepare it.

        Args:
            session: The problem.
            candidate: A process that has opened what is to be timed.
            monitor: Tells whether the GPU is disturbed; None: nothing does.
            is_trusted: Whether the reference runs there: its events need no other clock.
        """
        self._monitor = monitor
        self._is_trusted = is_trusted
        self._session = session
        self._candidate = candidate
        self._max_calls = session.memory.num_timed
        self._room_name = timed_room(session)
        self._room = candidate.give_room(self._room_name, self._max_calls)
        self._outputs = TimedOutputs(session, candidate, self._room)
        self._sealed = SealedClock(session, candidate, self._room_name, self._outputs)
        session.reference.trim()
        if monitor is not None:
            monitor.begin()
        self._legs: list[Leg] = []
        self._rests_ms: list[float] = []
        self._race_numbers: list[Numbers] = []
        self.conditions = NOTHING_SEEN
        self._queued = False

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs until one is left; see `halve`."""
        self._race_numbers = []
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
        for left in reversed(range(effort.rounds)):
            kept += self._undisturbed(self._round(index, calls, effort))
            if self._monitor is not None:
                self.conditions = self._monitor.conditions
            if len(kept) >= MIN_BLOCKS and effort.is_enough(estimate(kept), left):
                if self._is_trusted:
                    return kept
                confirmed = self._confirmed(index, calls, kept, effort)
                confirmed = self._held_to_sealed(index, confirmed, effort)
                if calls == 1:
                    return confirmed
                half = partial(self._half, index, 1)
                return held_to_single_calls(confirmed, half, slack_ms=SHORT_LEG_MS)
        raise host_noisy("the legs of reference or candidate differ too much among themselves")

    def _round(self, index: int, calls: int, effort: Effort) -> list[Block]:
        """Time a round of blocks; fewer where they show that there is no hope."""
        found: list[Block] = []
        for _ in range(effort.blocks):
            block = self._block(index, calls)
            if self._monitor is not None and self._monitor.disturbed():
                # The device is hot, short of power, or used by others: the block does not count.
                time.sleep(DISTURBED_PAUSE_S)
                continue
            found.append(block)
            fastest = max(block.log_ratio for block in found)
            if len(found) == effort.hopeless_blocks and fastest < math.log(HOPELESS_SPEEDUP):
                break
        return found

    def _warm_up(self, index: int, latency_ms: float) -> int:
        """Let both sides touch a leg's memory, whatever it holds, and the device reach its clock.

        Returns:
            Calls that make a leg, now that its time is known better.
        """
        session = self._session
        busy_ms = 0.0
        numbers: list[Numbers] = []
        for _ in range(WARM_UP_LEGS):
            calls = calls_per_leg(session.alone_ms, latency_ms, self._max_calls)
            if calls > len(numbers):
                numbers = session.mix(calls, self._room)
            session.leg(calls)
            leg = self._leg(index, numbers[:calls])
            latency_ms = max(session.per_call_ms(leg.times_ms), LEAST_MS)
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
        call = session.compared_call()
        self._outputs.require_right(leg.calls[call], call, calls)
        return max(reference_ms, LEAST_MS), max(session.per_call_ms(leg.times_ms), LEAST_MS)

    def _undisturbed(self, blocks: Sequence[Block]) -> list[Block]:
        """Drop blocks with a slowed reference, after another look at the reference alone."""
        session = self._session
        kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        if 2 * len(kept) < len(blocks):
            # Either the device has changed its pace, or the candidate slows the reference: it is
            # halted now, so the reference tells.
            self._candidate.stop()
            before = session.alone_ms
            session.settle()
            if session.alone_ms > SLOWED_FACTOR * session.fresh_ms:
                session.alone_ms = before
                raise host_noisy(
                    "the reference takes much longer than when its problem was opened: something "
                    "else runs on the device, perhaps what the candidate has left there"
                )
            kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        return kept

    def _confirmed(
        self, index: int, calls: int, blocks: list[Block], effort: Effort
    ) -> list[Block]:
        """Return the blocks as far as the referee's own clock confirms them."""
        ratio = estimate(blocks)
        least_ms = self._session.idle_ms + LEAST_KERNEL_MS
        if ratio.latency_ms < least_ms:
            log = (
                f"a call takes {1000 * ratio.latency_ms:.3g} us; one in which a kernel runs takes "
                f"{1000 * least_ms:.3g} us at least: compute in each call."
            )
            raise CandidateFailed(Status.IMPOSSIBLE, "faster_than_a_launch", log)
        bases = self._session.seal_bases
        if bases is None:
            self._require_clocks(index, calls, ratio)
            return blocks
        if len(blocks) <= effort.hopeless_blocks and ratio.speedup < HOPELESS_SPEEDUP:
            return blocks
        legs: list[SealedLeg] = []
        factor = 1.0
        for number in range(SEALED_ROUNDS + DISTURBED_ROUNDS):
            if number >= SEALED_ROUNDS:
                if factor > FORGED_FACTOR or not legs[-1].queued:
                    break
                time.sleep(DISTURBED_PAUSE_S)
            count = max(LEAST_SEALED_LEGS, effort.blocks // 4)
            legs += self._sealed.legs(index, ratio.latency_ms, bases, count)
            self._queued = any(leg.queued for leg in legs)
            factor = shortfall(legs, bases, ratio.latency_ms)
            if factor == 1.0:
                return blocks
        if factor > FORGED_FACTOR and self._queued:
            log = (
                f"the device takes {factor:.3g} times as long for a call as the events say: "
                "finish all work on the current stream, and leave the events alone."
            )
            raise CandidateFailed(Status.TIMING_MISMATCH, "events", log)
        # One that waits for the device in each call has no other clock than this one.
        return [block.slower(factor) for block in blocks]

    def _held_to_sealed(self, index: int, blocks: list[Block], effort: Effort) -> list[Block]:
        """Return the blocks as far as sealed legs of both sides confirm their ratio."""
        ratio, bases = estimate(blocks), self._session.seal_bases
        is_asked = ratio.speedup >= LEAST_CLAIM and ratio.latency_ms < SHORT_CALL_MS
        if bases is None or not is_asked or not effort.sealed_pairs:
            return blocks
        factor = unconfirmed(
            partial(self._sealed.legs, index, self._session.alone_ms, bases, effort.sealed_pairs),
            bases,
            ratio,
            was_queued=self._queued,
        )
        self.conditions = replace(self.conditions, overclaimed=factor)
        return [block.slower(factor) for block in blocks]

    def _require_clocks(self, index: int, calls: int, ratio: Ratio) -> None:
        """Where nothing can be sealed, the wall must confirm the events, and legs of two sizes."""
        rest_ms = median(self._rests_ms)
        readings = [
            Reading(events_ms=sum(leg.times_ms) / calls, wall_ms=(leg.wall_ms - rest_ms) / calls)
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
            # The host may have changed its pace since: the next reading takes two legs of now.
            whole = self._leg(index, self._session.mix(calls, self._room)).wall_ms
        if max(slopes) > SLOPE_AGREEMENT * max(min(slopes), LEAST_MS):
            raise host_noisy("the readings of the slope clock differ among themselves")
        log = f"{more} more calls take {median(slopes):.4g} ms each, a leg's {own:.4g} ms each."
        raise CandidateFailed(Status.TIMING_MISMATCH, "slope", log)

    def _candidate_call_ms(self, index: int, calls: int) -> float:
        """A leg of a race, whose legs meet the same contents: what they return is not looked at."""
        if calls > len(self._race_numbers):
            self._race_numbers = self._session.mix(calls, self._room)
        leg = self._leg(index, self._race_numbers[:calls])
        return max(self._session.per_call_ms(leg.times_ms), LEAST_MS)

    def _leg(self, index: int, numbers: Sequence[Numbers]) -> Leg:
        return self._candidate.leg(index, self._room_name, numbers)
