"""Halving: of several configurations the best one, by legs that grow longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

__all__ = ["halve"]

RACE_LEG_MS = 2.0


def halve(
    indices: Sequence[int], call_ms: Callable[[int, int], float], max_calls: int
) -> tuple[int, dict[int, float]]:
    """Halve configurations by short legs until one is left.

    Args:
        indices: Numbers of the configurations, at least one.
        call_ms: Times a leg of a configuration with some calls: ms per call.
        max_calls: Calls that a leg may have.

    Returns:
        The winner, and the median time of a call of every configuration, in ms.
    """
    least = min(2, max_calls)
    if len(indices) == 1:
        # A cold look is enough to begin with: the legs that warm it up tell more.
        return indices[0], {indices[0]: call_ms(indices[0], least)}
    times: dict[int, list[float]] = {}
    for index in indices:
        call_ms(index, least)
        times[index] = [call_ms(index, least)]
    survivors = list(indices)
    legs = 1
    while len(survivors) > 1:
        fastest = min(median(times[index]) for index in survivors)
        calls = max(least, min(int(RACE_LEG_MS / fastest) + 1, max_calls))
        for _ in range(legs):
            for index in survivors:
                times[index].append(call_ms(index, calls))
        survivors.sort(key=lambda index: median(times[index][1:]))
        survivors = survivors[: (len(survivors) + 1) // 2]
        legs *= 2
    return survivors[0], {index: median(seen[1:] or seen) for index, seen in times.items()}
