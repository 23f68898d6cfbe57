"""fast_p and geometric means over the problems of a run.

fast_p is the share of problems whose best candidate is correct and faster than p times the
reference. *fast_p sure* asks for more: the lower end of the 99 % interval is above p and above 1
plus the noise floor, from a verification in fresh processes, and at least 90 % of the time is
spent in the candidate's own kernels, unless the run counts library work too. Below p = 1 it
therefore equals its value at 1: a kernel is surely faster than the reference, or it does not count.

Source: fast_p from Ouyang et al., "KernelBench", arXiv:2502.10517, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["LIBRARY_SHARE", "OWN_SHARE", "THRESHOLDS", "Score", "Summary", "summarise"]

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.05, 1.5, 2.0)
"""The values of p that are reported."""

OWN_SHARE = 0.9
"""Least share of the time in own kernels of what counts as a kernel of its own."""

LIBRARY_SHARE = 0.1
"""Below this share of own kernels, or where it is not known, the best is a library call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What one problem's best candidate counts with.

    Attributes:
        speedup: Against the reference; None where no candidate is correct.
        low: Lower end of its 99 % interval; None where it was not verified.
        own_kernel_share: Share of the time in own kernels, 0 to 1; None: not measured.
        cap: The speedup at the device's ceiling, which no kernel exceeds; None: not known.
    """

    speedup: float | None = None
    low: float | None = None
    own_kernel_share: float | None = None
    cap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The figures over all problems that count; None where there are none.

    Attributes:
        fast_p: Share of problems by threshold, 0 to 1.
        fast_p_sure: The same for sure speedups.
        fast_p_attainable: The same for what the device's ceiling permits, problems of which it is
            not known included; None where no ceiling is known.
        geomean_correct: Geometric mean of the speedups of problems with a correct candidate.
        geomean_with_fallback: Over all problems; 1.0 where the best is slower than the
            reference, missing, or a library call that does not count.
    """

    fast_p: Mapping[float, float | None]
    fast_p_sure: Mapping[float, float | None]
    fast_p_attainable: Mapping[float, float | None]
    geomean_correct: float | None
    geomean_with_fallback: float | None


def summarise(
    scores: Sequence[Score], noise_floor: float, *, counts_library: bool = False
) -> Summary:
    """Return the figures over the given problems.

    Args:
        scores: One for each problem that counts.
        noise_floor: Relative speedup below which nothing is claimed, such as 0.015.
        counts_library: Whether library work counts as a kernel of its own does.
    """
    correct = [score.speedup for score in scores if score.speedup is not None]
    least_own, least_beyond_a_call = (0.0, 0.0) if counts_library else (OWN_SHARE, LIBRARY_SHARE)
    is_capped = any(score.cap is not None for score in scores)
    return Summary(
        fast_p={p: _share([_faster(s, p) for s in scores]) for p in THRESHOLDS},
        fast_p_sure={
            p: _share([_sure(s, max(p, 1 + noise_floor), least_own) for s in scores])
            for p in THRESHOLDS
        },
        fast_p_attainable={
            p: _share([_attainable(s, p) for s in scores]) if is_capped else None
            for p in THRESHOLDS
        },
        geomean_correct=_geomean(correct),
        geomean_with_fallback=_geomean([_with_fallback(s, least_beyond_a_call) for s in scores]),
    )


def _faster(score: Score, p: float) -> bool:
    return score.speedup is not None and score.speedup > p


def _sure(score: Score, above: float, least_own: float) -> bool:
    return score.low is not None and score.low > above and _own(score) >= least_own


def _attainable(score: Score, p: float) -> bool:
    return score.cap is None or score.cap > p


def _with_fallback(score: Score, least_own: float) -> float:
    if score.speedup is None or _own(score) < least_own:
        return 1.0
    return max(1.0, score.speedup)


def _own(score: Score) -> float:
    """The share of its own kernels; what is not known is none."""
    return score.own_kernel_share or 0.0


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _geomean(speedups: Sequence[float]) -> float | None:
    if not speedups:
        return None
    return math.exp(math.fsum(math.log(speedup) for speedup in speedups) / len(speedups))
