"""Do a candidate's own times agree with the referee's clock?

The events around a call are read in the candidate's process, which may forge them. The wall of the
leg is the referee's. Less what a leg of the reference takes beside its calls, flushing the cache as
often, it is the time of the calls: work that the events do not see, on another stream or after the
last event, is still seen by the wall; and a leg that is shorter than it says did not flush. Sealed
legs tell more closely how much the events may say at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from evaluator.referee.timing import LEAST_MS, Ratio

__all__ = ["Reading", "SealBases", "SealedLeg", "disagreement", "overclaimed", "shortfall"]

LEG_MS = 0.3
ABSOLUTE_MS = 0.02
RELATIVE = 0.2
"""What honest legs differ by: 0.3 ms a leg for waking up, and 20 us and a fifth a call."""


SEALED_MARGIN = 0.05
SEALED_SLACK_MS = 0.015
"""What honest sealed legs differ by from events: 15 us a leg, twice that where it has one call
that finds nothing looked up, and a twentieth a call."""
PAIR_MARGIN = 0.1
PAIR_SLACK_MS = 0.005
"""What the ratio of honest sealed legs may be below that of events: a tenth, and 5 us a leg."""
SINGLE_SLACK_MS = 0.02
"""In place of these 5 us, where a leg has one call though it could have several: kernels differ by
some 10 us in what the first call in another process takes longer."""
PAIR_SLOWED = 1.1
"""A reference whose sealed legs take longer than that, relative to its events and to what they took
when its problem was opened, is slowed by something: it counts for no more."""
LEAST_OWN_SHARE = 0.8
"""A reference whose sealed calls are shorter than that, relative to its events, is launched more
slowly than it runs: its events hold the interpreter's time, which is part of its number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealBases:
    """What sealed legs take beside their calls, in ms: medians, with no candidate's code around.

    Attributes:
        leg_ms: A leg of another process than the reference's, from letting it go to its end.
        late_ms: From its end until a piece of memory was copied.
        flush_ms: Flushing the caches, and turning to that, while another process waits.
        copy_ms_per_byte: Writing inputs.
        excess_ms: How much longer a call of the reference takes, sealed in another process, than
            its events say: at the start of a leg the device knows no more where its memory is.
        own_ms: A leg of the reference's own process, sealed there.
        elsewhere_ms: How much longer a leg of the reference takes in another process than there.
        single_ms: The same of legs of one call; None: all legs have one.
        own_share: Sealed time of a call of the reference, over what its events say.
    """

    leg_ms: float
    late_ms: float
    flush_ms: float
    copy_ms_per_byte: float
    excess_ms: float = 0.0
    own_ms: float = 0.0
    elsewhere_ms: float = 0.0
    single_ms: float | None = None
    own_share: float = 1.0

    def writing_ms(self, num_bytes: int) -> float:
        """Return what writing inputs, and flushing the caches, usually takes."""
        return self.flush_ms + num_bytes * self.copy_ms_per_byte

    def elsewhere_at_most_ms(self, calls: int) -> float:
        """Return how much longer an honest leg may take than one of the reference's process."""
        if calls == 1 and self.single_ms is not None:
            return self.single_ms + SINGLE_SLACK_MS
        return self.elsewhere_ms + PAIR_SLACK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedLeg:
    """A sealed leg of a candidate.

    Attributes:
        call_ms: Time of a call, what is beside taken off; more where outputs came late.
        calls: How many calls it had.
        queued: Whether they could be queued; if not, their time holds that of the interpreter too.
        writing_ms: Time in which their inputs were written, and the caches flushed.
        written_bytes: Bytes of these inputs.
        reference_ms: Time of a call of the reference on the same inputs, sealed in its own process;
            None: it could not be queued.
    """

    call_ms: float
    calls: int
    queued: bool
    writing_ms: float = 0.0
    written_bytes: int = 0
    reference_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One leg of a candidate, seen by both clocks.

    Attributes:
        events_ms: What its events say, per call.
        wall_ms: What the referee's wall says, per call, what is beside the calls taken off.
    """

    events_ms: float
    wall_ms: float


def disagreement(readings: Sequence[Reading], calls: int) -> str | None:
    """Say how the clocks disagree, or None where they do not.

    Args:
        readings: At least one; their medians are compared, since single legs may be disturbed.
        calls: Calls of a leg.
    """
    events = median(reading.events_ms for reading in readings)
    wall = median(reading.wall_ms for reading in readings)
    allowed = LEG_MS / calls + ABSOLUTE_MS + RELATIVE * max(events, wall)
    if wall - events > allowed:
        return (
            f"a call takes {wall:.4g} ms by the wall and {events:.4g} ms by its events: finish all "
            "work on the current stream before forward returns"
        )
    if events - wall > allowed:
        return f"the events show {events:.4g} ms a call, the wall {wall:.4g} ms"
    return None


def shortfall(legs: Sequence[SealedLeg], bases: SealBases, events_ms: float) -> float:
    """Return how many times what its events say a candidate's calls take; 1 where they agree.

    Args:
        legs: Sealed legs, at least one. The second shortest counts: what disturbs a leg makes it
            longer, and a single one may be too short to be true.
        bases: What such legs take beside, and in excess of events.
        events_ms: What its events say of a call.

    Returns:
        1, or a larger number where the events say less than they may.
    """
    times = sorted(leg.call_ms for leg in legs)
    # Legs are cut where queueing them takes long: who queues slowly does not get more slack.
    calls = max(leg.calls for leg in legs)
    slack_ms = SEALED_SLACK_MS * (1 + 1 / calls) / calls
    ratio = (times[min(1, len(times) - 1)] - slack_ms - bases.excess_ms) / events_ms
    return ratio if ratio > 1 + SEALED_MARGIN else 1.0


def overclaimed(pairs: Sequence[SealedLeg], bases: SealBases, ratio: Ratio) -> float:
    """Return how many times what sealed legs of both sides confirm events claim; 1 where they do.

    Both sides are sealed alike, on the same inputs, so what events see beside a kernel and sealed
    legs do not (caches that are written back, memory that must be looked up) is in neither side.
    Of legs of one call the second shortest of the candidate counts, since they scatter, and what
    disturbs one makes it longer: what each of their calls returned was compared.

    Args:
        pairs: Sealed legs of a candidate, queued, each with one of the reference of as many calls.
        bases: What such legs take beside.
        ratio: What events claim.

    Returns:
        1, or a larger number, beyond the tenth that honest legs may differ by.
    """
    times = sorted(leg.call_ms - bases.elsewhere_at_most_ms(leg.calls) / leg.calls for leg in pairs)
    is_single = bases.single_ms is not None and all(leg.calls == 1 for leg in pairs)
    candidate_ms = times[min(1, len(times) - 1)] if is_single else median(times)
    reference_ms = ratio.reference_ms
    if bases.own_share >= LEAST_OWN_SHARE:
        sealed_ms = median(leg.reference_ms for leg in pairs if leg.reference_ms is not None)
        reference_ms = min(sealed_ms, PAIR_SLOWED * bases.own_share * reference_ms)
    factor = ratio.speedup * candidate_ms / max(reference_ms, LEAST_MS)
    return max(1.0, factor / (1 + PAIR_MARGIN))
