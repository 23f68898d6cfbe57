"""Do a candidate's own times agree with the referee's clock?

The events around a call are read in the candidate's process, which may forge them. The wall of the
leg is the referee's. Less what a leg of the reference takes beside its calls, flushing the cache as
often, it is the time of the calls: work that the events do not see, on another stream or after the
last event, is still seen by the wall; and a leg that is shorter than it says did not flush.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["Reading", "disagreement"]

LEG_MS = 0.3
ABSOLUTE_MS = 0.02
RELATIVE = 0.2
"""What honest legs differ by: 0.3 ms a leg for waking up, and 20 us and a fifth a call."""


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
