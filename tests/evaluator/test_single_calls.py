"""Calls one at a time: who does the work of many calls in one gains nothing."""

from __future__ import annotations

import pytest

from archives.evaluation import Interval
from evaluator.referee.referee import Referee
from evaluator.referee.single_calls import held_to_single_calls, num_pairs, slower_alone
from evaluator.referee.timing import Block, Ratio
from tests.evaluator.referee_cases import judge
from tests.zoo.entries import cheats, problem


def test_calls_merged_into_one_gain_nothing(referee: Referee) -> None:
    (merged,) = (entry for entry in cheats() if entry.name == "merged_calls")
    verdict = judge(referee, problem(merged.problem), merged.source)
    assert verdict.interval is not None, verdict.log
    assert verdict.interval.low < 1.1, verdict.speedup


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


def test_slow_kernels_are_called_alone_less_often() -> None:
    assert num_pairs(ratio(1.0, 0.5)) == 7
    assert num_pairs(ratio(5.0, 4.0)) == 4
    assert num_pairs(ratio(50.0, 25.0)) == 3
