"""A peak and the sum of exponentials relative to it, which can be found in one pass.

Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.schedule import Schedule

__all__ = ["Relative", "online_pair", "relative_sum"]

_INFINITY = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A row's largest value and its sum of exponentials relative to that.

    Attributes:
        peak: Term of the largest value, a reduction of kind "peak" or "max".
        total: Term of the sum.
        calm: Whether the exponentials are relative to 0 where the peak is infinite.
    """

    peak: int
    total: int
    calm: bool


def relative_sum(schedule: Schedule) -> Relative | None:
    """Return a row's largest value and the sum relative to it, where it reduces just those two."""
    terms = schedule.terms
    if [len(group) for group in schedule.passes] != [1, 1]:
        return None
    (peak,), (total,) = schedule.passes
    power = terms[terms[total].args[0]]
    if terms[peak].payload not in ("peak", "max") or terms[total].payload != "sum":
        return None
    if power.op != "exponential" or terms[power.args[0]].op != "subtract":
        return None
    value, middle = terms[power.args[0]].args
    calm = _is_calm(terms, middle, peak)
    if value != terms[peak].args[0] or not (calm or middle == peak):
        return None
    return Relative(peak=peak, total=total, calm=calm)


def online_pair(schedule: Schedule) -> tuple[int, int] | None:
    """Return the peak and the sum of a softmax, where a row reduces exactly those two."""
    found = relative_sum(schedule)
    if found is None or found.calm or schedule.terms[found.peak].payload != "peak":
        return None
    return found.peak, found.total


def _is_calm(terms: Terms, number: int, peak: int) -> bool:
    """Tell whether a term is a peak, and 0 where that is infinite."""
    if terms[number].op != "select" or terms[number].args[2] != peak:
        return False
    condition, zero = (terms[arg] for arg in terms[number].args[:2])
    if condition.op != "equal" or zero.payload != 0.0:
        return False
    size, limit = (terms[arg] for arg in condition.args)
    return size.op == "absolute" and size.args == (peak,) and limit.payload == _INFINITY
