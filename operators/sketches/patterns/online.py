"""A peak and the sum of exponentials relative to it, which can be found in one pass.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3.
"""

from __future__ import annotations

from operators.sketches.patterns.schedule import Schedule

__all__ = ["online_pair"]


def online_pair(schedule: Schedule) -> tuple[int, int] | None:
    """Return a row's peak and its sum of exponentials, where it reduces exactly those two."""
    terms = schedule.terms
    if [len(group) for group in schedule.passes] != [1, 1]:
        return None
    (peak,), (total,) = schedule.passes
    power = terms[terms[total].args[0]]
    if terms[peak].payload != "peak" or terms[total].payload != "sum":
        return None
    if power.op != "exponential" or terms[power.args[0]].op != "subtract":
        return None
    return (peak, total) if terms[power.args[0]].args == (terms[peak].args[0], peak) else None
