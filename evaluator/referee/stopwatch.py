"""The clock: paired legs of reference and candidate, and what each timed call returned.

The referee's wall is the number. Around a leg of one process the other is halted, so nothing a
candidate left running can slow the reference, and it gets no time of its own either. A random
call of every leg is compared with the reference's output for the same inputs, which neither
process had seen before the leg: of an output of over 1 MB, a part chosen at random.

Covered: replayed, forgotten or reused outputs (one is held over all legs: a ring of buffers is
found as one buffer is), work put off until after the leg, work for several calls done in one,
children that are not halted, a clock or an empty round trip that is forged, threads that slow the
reference.
Not covered: effects of one process on the caches and the memory of the next, which both suffer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from time import perf_counter

from archives.evaluation import Status
from evaluator.referee.arrays import Array
from evaluator.referee.candidate_process import CandidateProcess, Outputs
from evaluator.referee.correctness import Mismatch, deviation, judge, mismatch_of_spec
from evaluator.referee.effort import HOPELESS_SPEEDUP, Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.foreign_memory import can_read_memory
from evaluator.referee.halving import halve
from evaluator.referee.keepsake import Keepsake
from evaluator.referee.parts import choose_part, part_of
from evaluator.referee.session import Session
from evaluator.referee.single_calls import held_to_mean_of_single_calls, held_to_single_calls
from evaluator.referee.timing import (
    LEAST_MS,
    Block,
    Ratio,
    calls_per_leg,
    estimate,
    slope_agrees,
    slope_ms,
    warm_blocks,
)

__all__ = ["Stopwatch"]

MIN_BLOCKS = 3
SLOWED_FACTOR = 1.25
"""A reference leg that much slower than the reference alone says nothing about a candidate."""
SLOPE_READINGS = 8
SLOPE_PAUSE_S = 0.1
"""In the middle of the readings: what has disturbed the host for a moment is over then."""
SLOPE_AGREEMENT = 1.5
"""Readings further apart than this accuse the host, not the candidate."""
DEFERRED_MS = 0.5
"""Fetching an output may take that much longer from a candidate than from the reference."""


class Stopwatch:
    """Times the configurations of one candidate process against the session's reference.

    To be used under the timing gate.
    """

    def __init__(self, session: Session, candidate: CandidateProcess) -> None:
        """Prepare it.

        Args:
            session: The problem.
            candidate: A process that has opened what is to be timed.
        """
        self._session = session
        self._candidate = candidate
        candidate.stop()
        self._empty_ms = session.empty_ms()
        self._ship_delays_ms: list[float] = []
        self._kept: Keepsake | None = None

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs until one is left; see `halve`."""
        self._candidate.stop()
        return halve(indices, self._candidate_call_ms, self._session.max_calls())

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        """Time a configuration in ABBA blocks and check what it returned meanwhile.

        Args:
            index: Number of the configuration.
            latency_ms: A first idea of its time per call.
            effort: How much to measure.

        Returns:
            The blocks that count.

        Raises:
            CandidateFailed: A timed output was wrong, the clocks disagree, or the host is too
                noisy to tell.
        """
        self._candidate.stop()
        calls = self._warm_up(index, latency_ms)
        kept: list[Block] = []
        for left in reversed(range(effort.rounds)):
            found = self._round(index, calls, effort)
            if self._kept is not None:
                self._kept.require_unchanged(self._candidate)
            kept += self._undisturbed(found if kept else warm_blocks(found))
            if len(kept) >= MIN_BLOCKS and effort.is_enough(estimate(kept), left):
                self._require_slope(index, calls, estimate(kept))
                self._require_prompt(estimate(kept))
                half = partial(self._half, index, 1)
                if effort.single_rounds:
                    return held_to_mean_of_single_calls(kept, half, effort.single_rounds)
                return held_to_single_calls(kept, half)
        raise host_noisy("the legs of reference or candidate differ too much among themselves")

    def _round(self, index: int, calls: int, effort: Effort) -> list[Block]:
        """Time a round of blocks; fewer where they show that there is no hope."""
        found: list[Block] = []
        while len(found) < effort.blocks:
            found.append(self._block(index, calls))
            fastest = max(block.log_ratio for block in found)
            if len(found) == effort.hopeless_blocks and fastest < math.log(HOPELESS_SPEEDUP):
                break
        return found

    def _warm_up(self, index: int, latency_ms: float) -> int:
        """Let both sides touch the memory that the outputs of a leg will need.

        A candidate's first full leg is still 10-25 % slow, so it gets two. An output of the first
        one is held from then on, so that the second one finds memory for one more. Neither counts,
        so both may meet the same contents.

        Returns:
            Calls that make a leg, now that its time is known better.
        """
        session = self._session
        calls = calls_per_leg(session.alone_ms, latency_ms, session.max_calls())
        bases = session.mixed_bases(calls)
        self._reference_leg(bases)
        latency_ms = self._per_call(self._candidate_leg(index, bases), calls)
        self._kept = Keepsake.take(session, self._candidate, calls)
        calls = calls_per_leg(session.alone_ms, latency_ms, session.max_calls())
        if calls != len(bases):
            bases = session.mixed_bases(calls)
        self._candidate_leg(index, bases)
        return calls

    def _block(self, index: int, calls: int) -> Block:
        first = bool(self._session.choose(2))
        halves = [self._half(index, calls, reference_first=order) for order in (first, not first)]
        return Block(
            reference_ms=(halves[0][0], halves[1][0]), candidate_ms=(halves[0][1], halves[1][1])
        )

    def _half(self, index: int, calls: int, *, reference_first: bool) -> tuple[float, float]:
        """One leg of each on the same fresh inputs: ms per call of reference and candidate."""
        bases = self._session.mixed_bases(calls)
        if reference_first:
            reference = self._reference_leg(bases)
            candidate = self._candidate_leg(index, bases)
        else:
            candidate = self._candidate_leg(index, bases)
            reference = self._reference_leg(bases)
        call = self._session.compared_call()
        expected = self._session.timed_outputs(call)
        parts = [choose_part(output, self._session.choose) for output in expected]
        seen = self._seen(call, expected, parts)
        if seen is not None:
            # The next sets are filled on the timed core while this one compares. Where outputs
            # cannot be read the time of fetching them tells of late ones: nothing runs beside.
            self._session.begin_mix(calls)
        wanted = [part_of(*pair) for pair in zip(expected, parts, strict=True)]
        if seen is None or self._mismatch(seen, wanted, call) is not None:
            self._check_whole(call, calls, expected, was_read=seen is not None)
        return self._per_call(reference, calls), self._per_call(candidate, calls)

    def _seen(
        self, call: int, expected: Sequence[Array], parts: Sequence[slice]
    ) -> list[Array] | None:
        """Read parts of a call's outputs; None where this host does not permit it.

        Raises:
            CandidateFailed: It does, and the outputs are not where the process says.
        """
        places = self._candidate.places(call, expected)
        seen = None if places is None else self._candidate.snapshot(places, parts)
        if seen is None and can_read_memory(self._session.reference.worker.pid):
            log = "an output is not in memory after the leg: return plain tensors from forward."
            raise CandidateFailed(Status.TIMING_MISMATCH, "unreadable_output", log)
        return seen

    def _check_whole(
        self, call: int, calls: int, expected: Sequence[Array], *, was_read: bool
    ) -> None:
        """Let the candidate show a call of its last leg whose memory did not satisfy."""
        outputs = self._shipped(call)
        mismatch = self._mismatch(outputs.arrays, expected, call)
        if mismatch is None:
            if was_read:
                log = "an output was not there yet when the clock stopped: compute in forward."
                raise CandidateFailed(Status.TIMING_MISMATCH, "deferred_work", log)
            return
        if call != calls - 1:
            last = self._session.timed_outputs(calls - 1)
            if self._mismatch(outputs.arrays, last, calls - 1) is None:
                log = "an output was overwritten by a later call: return a new tensor each time."
                raise CandidateFailed(Status.WRONG_VALUE, "output_reused", log)
        reason = mismatch.reason if mismatch.status is not Status.WRONG_VALUE else ""
        log = f"while it was timed, {mismatch.log}"
        raise CandidateFailed(mismatch.status, reason or "wrong_when_timed", log)

    def _shipped(self, call: int) -> Outputs:
        """Let the candidate write an output out, which must not take the time of computing it."""
        outputs, candidate_ms = self._candidate.ship(call)
        start = perf_counter()
        self._session.timed_outputs(call)
        self._ship_delays_ms.append(candidate_ms - 1000 * (perf_counter() - start))
        return outputs

    def _mismatch(
        self, outputs: Sequence[Array], expected: Sequence[Array], call: int
    ) -> Mismatch | None:
        found = mismatch_of_spec(outputs, expected)
        if found is not None:
            return found
        bounds = self._session.timed_bounds(call)
        for got, want, bound in zip(outputs, expected, bounds, strict=True):
            found = judge(deviation(got, want, want), bound)
            if found is not None:
                return found
        return None

    def _undisturbed(self, blocks: Sequence[Block]) -> list[Block]:
        """Drop blocks with a slowed reference, after another look at the reference alone."""
        session = self._session
        if any(min(block.reference_ms + block.candidate_ms) <= LEAST_MS for block in blocks):
            # No leg is as short as an empty one: the host disturbed the empty ones.
            session.forget_empty()
            self._candidate.stop()
            self._empty_ms = session.empty_ms()
            blocks = [b for b in blocks if min(b.reference_ms + b.candidate_ms) > LEAST_MS]
        kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        if 2 * len(kept) < len(blocks):
            # Either the host has changed its pace, or the candidate slows the reference: it is
            # halted now, so the reference tells.
            self._candidate.stop()
            session.alone_ms = session.measure_alone()
            kept = [b for b in blocks if not b.slowed(session.alone_ms, SLOWED_FACTOR)]
        return kept

    def _require_slope(self, index: int, calls: int, ratio: Ratio) -> None:
        """The calls by which a leg is longer than half a leg must take their time."""
        own = ratio.latency_ms
        whole = own * calls + self._empty_ms
        more = calls - calls // 2
        slopes: list[float] = []
        owns: list[float] = []
        while len(slopes) < SLOPE_READINGS:
            half = self._candidate_leg(index, self._session.mixed_bases(calls // 2))
            slopes.append(slope_ms(half, whole, more))
            if slope_agrees(own, slopes):
                return
            # The host may have changed its pace since: the next reading takes two legs of now.
            if len(slopes) == SLOPE_READINGS // 2:
                time.sleep(SLOPE_PAUSE_S)
            whole = self._candidate_leg(index, self._session.mixed_bases(calls))
            owns.append(self._per_call(whole, calls))
        if not own / SLOPE_AGREEMENT < median(owns) < own * SLOPE_AGREEMENT:
            raise host_noisy("the host has changed its pace since the blocks were timed")
        if max(slopes) > SLOPE_AGREEMENT * max(min(slopes), LEAST_MS):
            raise host_noisy("the readings of the slope clock differ among themselves")
        log = f"{more} more calls take {median(slopes):.4g} ms each, a leg's {own:.4g} ms each."
        raise CandidateFailed(Status.TIMING_MISMATCH, "slope", log)

    def _require_prompt(self, ratio: Ratio) -> None:
        """Fetching a finished output must not take the time of computing it."""
        delay = median(self._ship_delays_ms or [0.0])
        if delay > max(DEFERRED_MS, ratio.latency_ms):
            log = (
                f"fetching an output takes {delay:.3g} ms more than copying it: compute in forward."
            )
            raise CandidateFailed(Status.TIMING_MISMATCH, "deferred_work", log)

    def _candidate_call_ms(self, index: int, calls: int) -> float:
        leg = self._candidate_leg(index, self._session.mixed_bases(calls))
        return self._per_call(leg, calls)

    def _per_call(self, leg_ms: float, calls: int) -> float:
        return max((leg_ms - self._empty_ms) / calls, LEAST_MS)

    def _reference_leg(self, bases: Sequence[int]) -> float:
        # The candidate is halted, and was looked at since its last leg.
        return self._session.reference_leg_ms(bases)

    def _candidate_leg(self, index: int, bases: Sequence[int]) -> float:
        self._session.reference.worker.stop()
        # That takes as long as the look before the reference's leg: the longer a core has rested,
        # the slower it begins (1 % of a leg).
        self._candidate.stop()
        with self._session.turn:
            return self._candidate.leg_ms(index, bases)
