"""Does a candidate's time hold for calls one at a time?

The inputs of a leg are all there when it begins, so a candidate that finds them can compute all
calls in one: a product with the same weights, or a launch, for many sets at once costs less than
for each. Nothing but the caches of one call helps it where a leg is one call.

Covered: work for several calls that is done in one of them. Not covered: savings below what is
allowed here for the noise of short legs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Protocol

from evaluator.referee.timing import LEAST_MS, Block, Ratio, estimate

__all__ = [
    "LEAST_CLAIM",
    "SHORT_LEG_MS",
    "held_to_mean_of_single_calls",
    "held_to_single_calls",
    "num_pairs",
    "slower_alone",
    "slower_on_average",
]

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
_SEEN = 0.5
"""The part of a claim that has to show in calls one at a time, however much they scatter."""
_DOUBT = 3.0
"""Standard errors of what they save that are granted, below that."""
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


def held_to_mean_of_single_calls(blocks: list[Block], half: Half, rounds: int) -> list[Block]:
    """Return a candidate's blocks as far as calls one at a time confirm them on average.

    Rounds that are asked until one agrees are a lottery on a host where a call alone scatters by as
    much as is claimed. Here all of them count, and the two calls of a pair are compared with each
    other: what slows both is no matter.

    Args:
        blocks: Those of long legs.
        half: Times a leg of one call of each.
        rounds: Rounds of pairs, at least 1.
    """
    ratio = estimate(blocks)
    if ratio.speedup < LEAST_CLAIM:
        return blocks
    number = rounds * num_pairs(ratio)
    pairs = [half(reference_first=bool(each % 2)) for each in range(number)]
    factor = slower_on_average(ratio, pairs)
    return [block.slower(factor) for block in blocks] if factor > 1.0 else blocks


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
    reference_ms = median(reference for reference, _ in pairs)
    cold_ms = max(0.0, reference_ms - ratio.reference_ms)
    most_ms = (1.0 + _share(ratio, slack_ms)) * ratio.latency_ms + cold_ms
    dissenting = sum(candidate > most_ms for _, candidate in pairs)
    if dissenting <= _DISSENT * len(pairs):
        return 1.0
    # Not the median: calls of some distributions may be merged or left out, those of others not.
    num_disturbed = -(-len(pairs) // _DISTURBED)
    kept = sorted(pairs, key=lambda pair: pair[1])[: len(pairs) - num_disturbed]
    candidate_ms = fmean(candidate for _, candidate in kept)
    return max(1.0, ratio.speedup * candidate_ms / fmean(reference for reference, _ in kept))


def slower_on_average(
    ratio: Ratio, pairs: Sequence[tuple[float, float]], slack_ms: float = SHORT_LEG_MS
) -> float:
    """Return how many times too short long legs make a candidate's calls; 1 where pairs agree.

    What a candidate saves in a call alone, next to the reference, is to be what it saves in long
    legs, but for what `slower_alone` allows a call and for the standard error of so many pairs; and
    half of it at least. Who saves less is as fast as it is seen to be.

    Args:
        ratio: What long legs say.
        pairs: Legs of one call, reference and candidate, in ms, what is beside taken off.
        slack_ms: What short legs differ by.

    Returns:
        1, or a larger number where long legs say less than they may.
    """
    if sum(min(pair) > LEAST_MS for pair in pairs) < _LEAST_PAIRS:
        return max(1.0, ratio.speedup)
    saved = sorted(reference - candidate for reference, candidate in pairs)
    cut = len(saved) // _DISTURBED
    kept = saved[cut : len(saved) - cut]
    saved_ms, error_ms = fmean(kept), stdev(kept) / math.sqrt(len(kept))
    claimed_ms = ratio.reference_ms - ratio.latency_ms
    allowed_ms = _share(ratio, slack_ms) * ratio.latency_ms + _DOUBT * error_ms
    if saved_ms >= max(_SEEN * claimed_ms, claimed_ms - allowed_ms):
        return 1.0
    return max(1.0, (ratio.reference_ms - saved_ms) / ratio.latency_ms)


def _share(ratio: Ratio, slack_ms: float) -> float:
    """The share of a call that honest legs of one call may differ by from long ones."""
    return min(max(_RELATIVE, slack_ms / ratio.latency_ms), _MOST_RELATIVE)
