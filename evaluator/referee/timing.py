"""What times mean: the statistics of paired legs, without a clock.

A *leg* is n calls in a row; its wall time minus that of an empty leg is the time of n calls. A
*block* is four legs, ABBA or BAAB, A being the reference: its log ratio
d = (ln A1 + ln A2) / 2 - (ln B1 + ln B2) / 2 is free of any drift that is linear in time.

Source: our own measurements of leg protocols on a CPU; docs/referee.md, Timing: the median
    of paired log ratios, never a minimum or a low quantile (A/A 6-8 % off); 99 % intervals by
    order statistics, ranks floor((n - z sqrt n) / 2) and ceil(1 + (n + z sqrt n) / 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from archives.evaluation import Interval

__all__ = [
    "LEAST_MS",
    "LEAST_NOISE_FLOOR",
    "MAX_LEG_MS",
    "MIN_LEG_MS",
    "Block",
    "Ratio",
    "calls_per_leg",
    "estimate",
    "estimate_together",
    "noise_floor",
    "slope_agrees",
    "slope_ms",
    "warm_blocks",
]

Z_99 = 2.576
MIN_LEG_MS = 5.0
"""A shorter leg drowns in the round trip's own noise (80-100 us a round trip)."""
MAX_LEG_MS = 50.0
"""A reference much slower than the candidate need not run as often as the candidate could."""
MIN_TRIMMED_BLOCKS = 4
MIN_CALLS = 2
"""With one call a leg, a kept output buffer would never be seen overwritten."""
COLD_FACTOR = 1.5
"""Until the memory of large outputs has come, the first legs take up to six times as long."""
LEAST_MS = 1e-5
"""A call faster than 10 ns is no call: keeps logarithms finite where nothing was done."""
LEAST_NOISE_FLOOR = 0.015
"""No false claim in 60 A/A runs at this floor; every interval that missed 1 missed by less."""
SLOPE_BAND = (0.33, 3.0)
"""Slope over own time. Honest workers: 0.97-1.16, a forged clock: 0.007-0.014; single legs on a
busy host scatter within the band."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Four legs.

    Attributes:
        reference_ms: The two reference legs, ms per call.
        candidate_ms: The two candidate legs, ms per call.
    """

    reference_ms: tuple[float, float]
    candidate_ms: tuple[float, float]

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of the speedup that this block shows."""
        first, second = self.reference_ms
        third, fourth = self.candidate_ms
        return 0.5 * (math.log(first) + math.log(second) - math.log(third) - math.log(fourth))

    def slower(self, factor: float) -> Block:
        """Return the block with a candidate that takes so many times as long."""
        first, second = self.candidate_ms
        return replace(self, candidate_ms=(first * factor, second * factor))

    def against_faster(self, factor: float) -> Block:
        """Return the block with a reference that is so many times as fast."""
        first, second = self.reference_ms
        return replace(self, reference_ms=(first / factor, second / factor))

    def slowed(self, alone_ms: float, factor: float) -> bool:
        """Whether a reference leg took over `factor` times what the reference takes alone."""
        return max(self.reference_ms) > factor * alone_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """What the blocks say together.

    Attributes:
        speedup: Median over blocks of reference time over candidate time.
        interval: Its 99 % interval; with fewer than 14 blocks, the range of the blocks.
        width: Upper over lower bound of the interval, >= 1; where that is the range of the
            blocks, without the lowest and the highest one, since one disturbed block moves the
            range but not the median.
        latency_ms: Median candidate time of a call.
        reference_ms: Median reference time of a call.
        num_blocks: Blocks that counted.
    """

    speedup: float
    interval: Interval
    latency_ms: float
    reference_ms: float
    num_blocks: int
    width: float


def estimate(blocks: Sequence[Block]) -> Ratio:
    """Pool the blocks of one or several processes.

    Args:
        blocks: At least one block.

    Returns:
        The speedup with its interval.
    """
    ratios = sorted(block.log_ratio for block in blocks)
    low, high = _ranks(len(ratios))
    is_range = high - low == len(ratios) - 1 and len(ratios) >= MIN_TRIMMED_BLOCKS
    inner = ratios[1:-1] if is_range else ratios[low : high + 1]
    return Ratio(
        speedup=math.exp(median(ratios)),
        interval=Interval(low=math.exp(ratios[low]), high=math.exp(ratios[high])),
        latency_ms=median(t for block in blocks for t in block.candidate_ms),
        reference_ms=median(t for block in blocks for t in block.reference_ms),
        num_blocks=len(ratios),
        width=math.exp(inner[-1] - inner[0]),
    )


def estimate_together(processes: Sequence[Sequence[Block]]) -> Ratio:
    """Pool the blocks of several processes, each of which has its own luck.

    Where a process lies in memory makes it a little faster or slower for as long as it lives, so
    its blocks are not independent: the interval holds what each process says by itself.

    Args:
        processes: The blocks of each, at least one of each.

    Returns:
        The speedup; its interval holds the median of each process.
    """
    ratio = estimate([block for blocks in processes for block in blocks])
    own = [estimate(blocks).speedup for blocks in processes]
    interval = Interval(low=min(ratio.interval.low, *own), high=max(ratio.interval.high, *own))
    return replace(ratio, interval=interval)


def _ranks(count: int) -> tuple[int, int]:
    """Indices, from 0, of the order statistics that bound the median with 99 %."""
    spread = Z_99 * math.sqrt(count)
    low = math.floor((count - spread) / 2)
    return max(low, 1) - 1, min(math.ceil(1 + (count + spread) / 2), count) - 1


def calls_per_leg(reference_ms: float, candidate_ms: float, max_calls: int) -> int:
    """Decide how many calls make a leg.

    A leg of the faster side takes at least 5 ms, unless one of the slower side would take more
    than 50 ms then.

    Args:
        reference_ms: Time of a reference call, in ms, > 0.
        candidate_ms: Time of a candidate call, in ms, > 0.
        max_calls: How many input sets there is room for, >= 2.

    Returns:
        Calls in a leg, from 2 to `max_calls`.
    """
    fast, slow = sorted((reference_ms, candidate_ms))
    wanted = min(math.ceil(MIN_LEG_MS / fast), math.ceil(MAX_LEG_MS / slow))
    return max(MIN_CALLS, min(wanted, max_calls))


def slope_ms(short_leg_ms: float, long_leg_ms: float, more_calls: int) -> float:
    """Return the time of a call by the slope clock, (W(n + m) - W(n)) / m.

    Args:
        short_leg_ms: Wall of a leg of n calls, nothing subtracted.
        long_leg_ms: Wall of a leg of n + m calls.
        more_calls: m.
    """
    return (long_leg_ms - short_leg_ms) / more_calls


def slope_agrees(own_ms: float, slopes_ms: Sequence[float]) -> bool:
    """Tell whether the slope clock confirms a time; any one of its readings suffices."""
    low, high = SLOPE_BAND
    return any(low * own_ms <= slope <= high * own_ms for slope in slopes_ms)


def warm_blocks(blocks: Sequence[Block]) -> Sequence[Block]:
    """Leave out the first blocks of a process, as long as a candidate's leg in them was cold.

    Nobody gains by that but who is slow to begin with, and no more than by a longer warm-up.

    Args:
        blocks: In the order in which they were timed.
    """
    usual_ms = median(leg_ms for block in blocks for leg_ms in block.candidate_ms)
    cold = 0
    while cold < len(blocks) and max(blocks[cold].candidate_ms) > COLD_FACTOR * usual_ms:
        cold += 1
    return blocks[cold:]


def noise_floor(a_a_speedups: Sequence[float]) -> float:
    """Derive the relative speedup below which nothing is claimed.

    Args:
        a_a_speedups: Speedups of the reference against itself, each from one evaluation.

    Returns:
        The largest deviation from 1 seen, at least 1.5 %.
    """
    return max([LEAST_NOISE_FLOOR, *(abs(math.log(s)) for s in a_a_speedups)])
