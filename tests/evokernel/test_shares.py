from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.records import OperatorTally
from evokernel.shares import LEAST_COST_S, draw, shares, update_credits

NAMES = ("sketch", "tune", "splice", "rewrite")


def tally(operator: str, gain: float, cost_s: float, evaluated: int = 1) -> OperatorTally:
    return OperatorTally(
        problem="p",
        generation=1,
        operator=operator,
        attempts=1,
        evaluated=evaluated,
        gain=gain,
        cost_s=cost_s,
    )


@given(
    credit=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e6)),
    floor=st.floats(0, 0.5),
    emphasis=st.dictionaries(st.sampled_from(NAMES), st.floats(0.1, 10)),
)
def test_shares_sum_to_one_and_none_is_negative(
    credit: dict[str, float], floor: float, emphasis: dict[str, float]
) -> None:
    found = shares(NAMES, credit, floor, emphasis)
    assert set(found) == set(NAMES)
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) >= 0


@given(credit=st.dictionaries(st.sampled_from(NAMES), st.floats(0, 1e6)), floor=st.floats(0, 0.25))
def test_no_operator_starves(credit: dict[str, float], floor: float) -> None:
    assert min(shares(NAMES, credit, floor).values()) >= floor - 1e-9


def test_more_gain_per_second_means_a_larger_share() -> None:
    found = shares(("tune", "splice"), {"tune": 3.0, "splice": 1.0}, 0.1)
    assert found["tune"] == pytest.approx(0.1 + 0.8 * 0.75)


def test_without_any_gain_all_are_asked_alike() -> None:
    assert shares(("a", "b"), {"a": 0.0, "b": 0.0}, 0.0) == {"a": 0.5, "b": 0.5}


def test_an_operator_never_tried_counts_as_the_mean() -> None:
    found = shares(("a", "b", "c"), {"a": 1.0, "b": 3.0}, 0.0)
    assert found["c"] == pytest.approx(1 / 3)


def test_credit_is_gain_per_second_smoothed() -> None:
    first = update_credits({}, [tally("tune", 2.0, 4.0)], memory=0.75)
    assert first == {"tune": pytest.approx(0.5)}
    second = update_credits(first, [tally("tune", 0.0, 4.0)], memory=0.75)
    assert second == {"tune": pytest.approx(0.375)}


def test_an_operator_that_evaluated_nothing_keeps_its_credit() -> None:
    assert update_credits({"tune": 0.4}, [tally("tune", 0.0, 0.0, evaluated=0)], 0.5) == {
        "tune": 0.4
    }


def test_next_to_no_cost_is_no_infinite_credit() -> None:
    assert update_credits({}, [tally("tune", 1.0, 0.0)], 0.5)["tune"] == 1 / LEAST_COST_S


@given(
    merits=st.dictionaries(st.sampled_from(NAMES), st.floats(1e-6, 1e6), min_size=1),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_draw_is_what_numpy_would_choose(merits: dict[str, float], seed: int) -> None:
    """What was chosen in a run that is resumed or replayed by another version is chosen again."""
    whole = sum(merits.values())
    odds = {name: merit / whole for name, merit in merits.items()}
    ours, numpys = (np.random.Generator(np.random.PCG64(seed)) for _ in range(2))
    for _ in range(3):
        assert draw(odds, ours) == numpys.choice(list(odds), p=list(odds.values()))
    assert ours.random() == numpys.random()
