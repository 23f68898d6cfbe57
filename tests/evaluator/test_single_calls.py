"""Calls one at a time: who does the work of many calls in one gains nothing."""

from __future__ import annotations

import numpy as np
import pytest

from archives.evaluation import Interval
from evaluator.evaluator import Purpose
from evaluator.referee.referee import Referee
from evaluator.referee.single_calls import (
    held_to_mean_of_single_calls,
    held_to_single_calls,
    num_pairs,
    slower_alone,
    slower_on_average,
)
from evaluator.referee.timing import Block, Ratio, estimate
from tests.zoo.entries import cheats
from tests.zoo.judging import evaluate


def test_calls_merged_into_one_gain_a_verification_nothing(referee: Referee) -> None:
    (merged,) = (entry for entry in cheats() if entry.name == "merged_calls")
    verdict = evaluate(referee, merged, purpose=Purpose.VERIFY)
    assert verdict.interval is not None, verdict.log
    assert verdict.interval.low < 1.0, verdict.speedup


def ratio(reference_ms: float, latency_ms: float) -> Ratio:
    speedup = reference_ms / latency_ms
    return Ratio(
        speedup=speedup,
        interval=Interval(low=speedup, high=speedup),
        latency_ms=latency_ms,
        reference_ms=reference_ms,
        num_blocks=5,
        width=1.0,
    )


@pytest.mark.parametrize(
    ("claimed", "alone", "factor"),
    [
        ((2.0, 1.0), (2.0, 1.0), 1.0),
        ((2.0, 1.0), (2.0, 1.1), 1.0),
        ((2.0, 1.0), (2.0, 2.0), 2.0),
        ((2.0, 1.0), (2.5, 1.5), 1.0),
        ((2.0, 1.0), (2.5, 3.0), 2.4),
        ((0.2, 0.01), (0.2, 0.0125), 1.0),
        ((0.2, 0.01), (0.2, 0.2), 20.0),
        ((0.06, 0.04), (0.06, 0.06), 1.5),
        ((2.0, 1.0), (1.5, 0.8), 1.0),
        ((2.0, 1.0), (2.0, 1e-5), 2.0),
    ],
)
def test_what_a_call_alone_may_take(
    claimed: tuple[float, float], alone: tuple[float, float], factor: float
) -> None:
    disturbed = (9.0, 9.0)
    pairs = [alone, disturbed, alone, alone]
    assert slower_alone(ratio(*claimed), pairs) == pytest.approx(factor)


def test_a_claim_that_is_lost_in_scatter_is_not_confirmed_by_a_majority() -> None:
    claimed = ratio(0.28, 0.19)
    scattered = [(1.0, 0.7), (1.0, 0.8), (1.0, 0.9), (1.0, 1.0), (1.0, 1.1)]
    assert slower_alone(claimed, scattered) == pytest.approx(0.85 * 0.28 / 0.19)
    assert slower_alone(claimed, [(1.0, 0.9)] * 5) == 1.0


def test_short_legs_that_disagree_are_joined_by_more_of_them() -> None:
    blocks = [Block(reference_ms=(2.0, 2.0), candidate_ms=(1.0, 1.0))] * 5
    unlucky = iter([(2.0, 1.0)] * 3 + [(2.0, 2.0)] * 4 + [(2.0, 1.0)] * 99)
    asked = []

    def half(*, reference_first: bool) -> tuple[float, float]:
        asked.append(reference_first)
        return next(unlucky)

    assert held_to_single_calls(blocks, half) == blocks
    assert len(asked) == 21


def scattered(
    reference_ms: float, candidate_ms: float, seed: int, number: int = 84
) -> list[tuple[float, float]]:
    """Pairs on a busy host: what slows both, and 0.15 ms of each one's own."""
    draw = np.random.default_rng(seed)
    both, own = draw.exponential(0.5, number), draw.normal(0.0, 0.15, (2, number))
    references, candidates = reference_ms + both + own[0], candidate_ms + both + own[1]
    return [(float(one), float(other)) for one, other in zip(references, candidates, strict=True)]


def test_calls_that_scatter_as_much_as_is_claimed_confirm_it_on_average_or_not() -> None:
    claimed = ratio(0.40, 0.24)
    for seed in range(200):
        # Merged: alone as slow as the reference.
        assert slower_on_average(claimed, scattered(0.4, 0.4, seed)) > 1.25, seed
        # Honest, with the same cold start as the reference.
        assert slower_on_average(claimed, scattered(0.6, 0.44, seed)) == 1.0, seed


def test_a_large_claim_is_held_to_what_is_seen_and_scatter_does_not_cost_it() -> None:
    claimed = ratio(0.40, 0.04)
    for seed in range(200):
        assert slower_on_average(claimed, scattered(0.4, 0.04, seed)) == 1.0, seed
    half_seen = [(0.40, 0.30)] * 12
    assert slower_on_average(claimed, half_seen) == pytest.approx(0.30 / 0.04)
    assert slower_on_average(claimed, [(0.4, 1e-5)] * 12) == pytest.approx(10.0)


def test_all_rounds_count_on_average() -> None:
    blocks = [Block(reference_ms=(2.0, 2.0), candidate_ms=(1.0, 1.0))] * 5
    lucky = iter([(2.0, 1.0)] * 7 + [(2.0, 2.0)] * 99)
    held = held_to_mean_of_single_calls(blocks, lambda *, reference_first: next(lucky), rounds=6)
    assert estimate(held).speedup == pytest.approx(2.0 / (2.0 - 1 / 30), rel=0.05)
    honest = held_to_mean_of_single_calls(blocks, lambda *, reference_first: (2.5, 1.5), rounds=6)
    assert honest == blocks


def test_slow_kernels_are_called_alone_less_often() -> None:
    assert num_pairs(ratio(1.0, 0.5)) == 7
    assert num_pairs(ratio(5.0, 4.0)) == 4
    assert num_pairs(ratio(50.0, 25.0)) == 3
