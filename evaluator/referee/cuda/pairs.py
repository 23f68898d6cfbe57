"""Pairs of sealed legs, one of either side on the same inputs: they hold what events claim.

What the events of a candidate say is its own word, and one sealed clock allows a slack that is a
quarter of a call of 0.1 ms. The ratio of two sealed legs is closer to that of honest events.

Covered: events that say of short calls a fifth less than they should; calls of a leg that are all
computed in one of them by who forges its events, too, where a call takes longer than 0.1 ms. Not
covered: the same where that call is shorter, since legs of one call differ by 20 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from evaluator.referee.cuda.clocks import SealBases, SealedLeg, overclaimed
from evaluator.referee.failure import host_noisy
from evaluator.referee.timing import Ratio

__all__ = ["unconfirmed"]

ROUNDS = 2
LEAST_PAIRS = 3


class Legs(Protocol):
    """Times some sealed legs of a candidate, each after one of the reference; see `SealedClock`."""

    def __call__(self, most_calls: int | None) -> Sequence[SealedLeg]:
        """Return legs of so many calls at most; None: of as many as the trial's."""
        ...


def unconfirmed(legs: Legs, bases: SealBases, ratio: Ratio, *, was_queued: bool) -> float:
    """Return how many times what sealed legs of both sides confirm events claim; 1 where they do.

    Legs of as many calls as the trial's tell most closely. Where those have several, legs of one
    call follow: nothing can be computed in another one there.

    Args:
        legs: Times some legs.
        bases: What they take beside their calls.
        ratio: What events claim.
        was_queued: Whether the candidate's calls could be queued before.

    Raises:
        CandidateFailed: They cannot be queued now.
    """
    factor = _unconfirmed_by(None, legs, bases, ratio, was_queued=was_queued)
    if bases.single_ms is None:
        return factor
    held = replace(ratio, speedup=ratio.speedup / factor, latency_ms=ratio.latency_ms * factor)
    return factor * _unconfirmed_by(1, legs, bases, held, was_queued=was_queued)


def _unconfirmed_by(
    most_calls: int | None, legs: Legs, bases: SealBases, ratio: Ratio, *, was_queued: bool
) -> float:
    """See `unconfirmed`; by legs of so many calls at most."""
    pairs: list[SealedLeg] = []
    for _ in range(ROUNDS):
        found = legs(most_calls)
        pairs += [leg for leg in found if leg.queued and leg.reference_ms is not None]
        if len(pairs) < LEAST_PAIRS:
            if not was_queued:
                return 1.0
            raise host_noisy("legs that could be queued before, cannot be now")
        factor = overclaimed(pairs, bases, ratio)
        if factor == 1.0:
            break
    return factor
