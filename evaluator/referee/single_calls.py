"""Does a candidate's time hold for calls one at a time?

The inputs of a leg are all there when it begins, so a candidate that finds them can compute all
calls in one: a product with the same weights, or a launch, for many sets at once costs less than
for each. Nothing but the caches of one call helps it where a leg is one call.

Covered: work for several calls that is done in one of them. Not covered: savings below what is
allowed here for the noise of short legs.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Protocol

from evaluator.referee.timing import LEAST_MS, Block, Ratio, estimate

__all__ = ["LEAST_CLAIM", "SHORT_LEG_MS", "held_to_single_calls", "num_pairs", "slower_alone"]

LEAST_CLAIM = 1.05
"""Who claims less gains too little by it to be asked."""
ROUNDS = 3
"""Short legs on a busy host scatter: those that do not agree are joined by more of them."""
SHORT_LEG_MS = 0.02
_MOST_PAIRS, _LEAST_PAIRS = 7, 3
_TOGETHER_MS = 40.0
_RELATIVE, _MOST_RELATIVE = 0.15, 0.25
"""With `SHORT_LEG_MS`, what honest legs of one call differ by from long ones, whose round trip
weighs less: of a call, at least and at most."""
_DISTURBED = 7
"""One pair in so many begun, the longest, does not count for how long calls alone take."""
_DISSENT = 0.25
"""A majority is not enough: where short legs scatter by more than a claim, it is a toss-up."""


class Half(Protocol):
    """Times legs of reference and candidate on the same inputs."""

    def __call__(self, *, reference_first: bool) -> tuple[float, float]:
        """Return the ms per call of reference and candidate."""
        ...


def held_to_single_calls(
    blocks: list[Block],
    half: Half,
    *,
    slack_ms: float = SHORT_LEG_MS,
) -> list[Block]:
    """Return a candidate's blocks as far as calls one at a time confirm what they claim.

    Args:
        blocks: Those of long legs.
        half: Times a leg of one call of each.
        slack_ms: What short legs differ by.
    """
    ratio = estimate(blocks)
    if ratio.speedup < LEAST_CLAIM:
        return blocks
    pairs: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        pairs += [half(reference_first=bool(number % 2)) for number in range(num_pairs(ratio))]
        factor = slower_alone(ratio, pairs, slack_ms)
        if factor == 1.0:
            return blocks
    return [block.slower(factor) for block in blocks]


def num_pairs(ratio: Ratio) -> int:
    """Return how many pairs of such legs are worth their time: about 40 ms, from 3 to 7."""
    pair_ms = ratio.reference_ms + ratio.latency_ms
    return max(_LEAST_PAIRS, min(_MOST_PAIRS, int(_TOGETHER_MS / pair_ms)))


def slower_alone(
    ratio: Ratio, pairs: Sequence[tuple[float, float]], slack_ms: float = SHORT_LEG_MS
) -> float:
    """Return how many times too short long legs make a candidate's calls; 1 where all agree.

    What the reference takes more for a call alone, an honest candidate may take too. Who takes more
    than that, or is not clearly seen to take less, is as fast as it is in legs of one call.

    Args:
        ratio: What long legs say.
        pairs: Legs of one call, reference and candidate, in ms, what is beside taken off.
        slack_ms: What short legs differ by.

    Returns:
        1, or a larger number where long legs say less than they may.
    """
    # A leg that took no longer than an empty one was not seen, or its reply came too early.
    if sum(min(pair) > LEAST_MS for pair in pairs) < _LEAST_PAIRS:
        return max(1.0, ratio.speedup)
    share = min(max(_RELATIVE, slack_ms / ratio.latency_ms), _MOST_RELATIVE)
    reference_ms = median(reference for reference, _ in pairs)
    cold_ms = max(0.0, reference_ms - ratio.reference_ms)
    most_ms = (1.0 + share) * ratio.latency_ms + cold_ms
    dissenting = sum(candidate > most_ms for _, candidate in pairs)
    if dissenting <= _DISSENT * len(pairs):
        return 1.0
    # Not the median: calls of some distributions may be merged or left out, those of others not.
    num_disturbed = -(-len(pairs) // _DISTURBED)
    kept = sorted(pairs, key=lambda pair: pair[1])[: len(pairs) - num_disturbed]
    candidate_ms = fmean(candidate for _, candidate in kept)
    return max(1.0, ratio.speedup * candidate_ms / fmean(reference for reference, _ in kept))
