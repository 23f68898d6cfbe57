"""The statistics of paired legs, on simulated clocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.referee.timing import (
    Block,
    calls_per_leg,
    estimate,
    estimate_together,
    noise_floor,
    slope_agrees,
    slope_ms,
    warm_blocks,
)

TIMES = st.floats(1e-3, 1e3)


def simulated(speedup: float, sd: float, count: int, rng: np.random.Generator) -> list[Block]:
    """Blocks of a reference of 1 ms with log-normal noise and a drift that both sides share."""
    noise = np.exp(rng.normal(0, sd, (count, 4)))
    drift = np.exp(rng.normal(0, 0.2, count))
    return [
        Block(
            reference_ms=(float(d * a), float(d * b)),
            candidate_ms=(float(d * c / speedup), float(d * e / speedup)),
        )
        for (a, b, c, e), d in zip(noise, drift, strict=True)
    ]


@given(reference=TIMES, candidate=TIMES)
def test_equal_blocks_give_their_ratio_exactly(reference: float, candidate: float) -> None:
    block = Block(reference_ms=(reference, reference), candidate_ms=(candidate, candidate))
    ratio = estimate([block] * 5)
    assert ratio.speedup == pytest.approx(reference / candidate)
    assert ratio.interval.low == pytest.approx(ratio.interval.high)
    assert ratio.latency_ms == pytest.approx(candidate)


@given(times=st.lists(st.tuples(TIMES, TIMES, TIMES, TIMES), min_size=1, max_size=30))
def test_the_speedup_lies_in_its_interval(times: list[tuple[float, ...]]) -> None:
    blocks = [Block(reference_ms=(a, b), candidate_ms=(c, d)) for a, b, c, d in times]
    ratio = estimate(blocks)
    assert ratio.interval.low <= ratio.speedup * (1 + 1e-12)
    assert ratio.speedup <= ratio.interval.high * (1 + 1e-12)
    swapped = [Block(reference_ms=(c, d), candidate_ms=(a, b)) for a, b, c, d in times]
    assert estimate(swapped).speedup == pytest.approx(1 / ratio.speedup)


def test_the_interval_of_sixty_blocks_covers_the_truth_and_is_narrow() -> None:
    rng = np.random.default_rng(0)
    covered, widths = 0, []
    for _ in range(300):
        ratio = estimate(simulated(1.3, 0.02, 60, rng))
        covered += ratio.interval.low <= 1.3 <= ratio.interval.high
        widths.append(ratio.width)
    assert covered >= 290
    assert np.median(widths) < 1.03


def test_the_interval_of_several_processes_holds_what_each_of_them_says() -> None:
    lucky, unlucky = (
        [Block(reference_ms=(luck, luck), candidate_ms=(1, 1))] * 20 for luck in (1.04, 1.0)
    )
    ratio = estimate_together([lucky, lucky, unlucky])
    assert ratio.speedup == pytest.approx(1.04)
    assert ratio.interval.low == pytest.approx(1.0)
    assert ratio.interval.high == pytest.approx(1.04)
    assert estimate_together([lucky]) == estimate(lucky)


def test_ranks_are_those_of_the_formula() -> None:
    ratios = np.linspace(1, 2, 20)
    blocks = [Block(reference_ms=(r, r), candidate_ms=(1, 1)) for r in ratios]
    interval = estimate(blocks).interval
    assert interval.low == pytest.approx(ratios[3])  # the 4th and the 17th of 20
    assert interval.high == pytest.approx(ratios[16])


def test_no_false_claim_in_simulated_a_a_runs() -> None:
    rng = np.random.default_rng(1)
    floor = noise_floor([])
    claims = sum(
        estimate(simulated(1.0, 0.03, 60, rng)).interval.low > 1 + floor for _ in range(300)
    )
    assert claims == 0


@given(reference=TIMES, candidate=TIMES, room=st.integers(2, 256))
def test_legs_are_long_enough_where_there_is_room(
    reference: float, candidate: float, room: int
) -> None:
    calls = calls_per_leg(reference, candidate, room)
    assert 2 <= calls <= room
    fast, slow = sorted((reference, candidate))
    if calls < room and slow * (calls + 1) < 50:
        assert calls * fast >= 5 or calls == 2


def test_a_slowed_reference_voids_its_block() -> None:
    block = Block(reference_ms=(1.0, 1.3), candidate_ms=(1.0, 1.0))
    assert block.slowed(1.0, 1.25)
    assert not block.slowed(1.1, 1.25)


@pytest.mark.parametrize(
    ("legs_ms", "left_out"),
    [
        ([30, 31, 10, 11, 10, 10, 10, 11, 10, 10], 1),
        ([10, 32, 27, 11, 10, 10, 10, 11, 10, 10], 2),
        ([10, 11, 10, 10, 32, 31, 10, 11, 10, 10], 0),
        ([10, 11], 0),
    ],
)
def test_the_first_blocks_are_left_out_while_a_candidate_is_cold(
    legs_ms: list[float], left_out: int
) -> None:
    pairs = zip(legs_ms[::2], legs_ms[1::2], strict=True)
    blocks = [Block(reference_ms=(1.0, 1.0), candidate_ms=pair) for pair in pairs]
    assert list(warm_blocks(blocks)) == blocks[left_out:]


def test_the_slope_confirms_an_honest_clock_and_not_a_forged_one() -> None:
    empty, own, calls = 0.1, 0.5, 10
    honest = slope_ms(empty + own * calls, empty + own * 2 * calls, calls)
    assert honest == pytest.approx(own)
    assert slope_agrees(own, [honest])
    assert not slope_agrees(0.01 * own, [honest])
    assert slope_agrees(own, [9.0, honest])


def test_the_noise_floor_is_at_least_one_and_a_half_percent() -> None:
    assert noise_floor([1.001, 0.999]) == 0.015
    assert noise_floor([1.001, 0.95]) == pytest.approx(-math.log(0.95))
