import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.fast_p import THRESHOLDS, Score, summarise

SETTINGS = settings(deadline=None, derandomize=True, max_examples=50)

scores = st.builds(
    Score,
    speedup=st.none() | st.floats(0.01, 100),
    low=st.none() | st.floats(0.01, 100),
    own_kernel_share=st.none() | st.floats(0, 1),
)


def test_a_speedup_counts_where_it_is_above_p_and_not_at_it() -> None:
    summary = summarise([Score(speedup=1.0), Score(speedup=1.5), Score()], noise_floor=0.0)
    assert summary.fast_p[0.0] == pytest.approx(2 / 3)
    assert summary.fast_p[0.8] == pytest.approx(2 / 3)
    assert summary.fast_p[1.0] == pytest.approx(1 / 3)
    assert summary.fast_p[1.5] == 0.0


@pytest.mark.parametrize(
    ("score", "sure"),
    [
        (Score(speedup=1.2, low=1.1, own_kernel_share=1.0), True),
        (Score(speedup=1.2, low=1.1, own_kernel_share=0.9), True),
        (Score(speedup=1.2, low=1.1, own_kernel_share=0.89), False),
        (Score(speedup=1.2, low=1.1, own_kernel_share=None), False),
        (Score(speedup=1.2, low=None, own_kernel_share=1.0), False),
        (Score(speedup=1.2, low=1.02, own_kernel_share=1.0), False),
    ],
)
def test_sure_needs_the_interval_above_the_noise_and_kernels_of_its_own(
    score: Score, sure: bool
) -> None:
    assert summarise([score], noise_floor=0.02).fast_p_sure[1.0] == float(sure)


@pytest.mark.parametrize("own", [None, 0.0, 0.5, 1.0])
def test_where_library_work_counts_the_share_decides_nothing(own: float | None) -> None:
    score = Score(speedup=1.5, low=1.3, own_kernel_share=own)
    summary = summarise([score], noise_floor=0.02, counts_library=True)
    assert summary.fast_p_sure[1.05] == 1.0
    assert summary.geomean_with_fallback == pytest.approx(1.5)
    for weak in (replace(score, low=1.01), replace(score, low=None)):
        assert summarise([weak], 0.02, counts_library=True).fast_p_sure[1.0] == 0.0


def test_below_one_a_kernel_is_sure_only_where_it_is_surely_faster_than_the_reference() -> None:
    slower = Score(speedup=0.9, low=0.85, own_kernel_share=1.0)
    summary = summarise([slower], noise_floor=0.0)
    assert summary.fast_p[0.5] == 1.0
    assert summary.fast_p_sure[0.5] == 0.0


def test_geometric_means_with_and_without_the_fallback() -> None:
    four = Score(speedup=4.0, own_kernel_share=1.0)
    slower = Score(speedup=0.25, own_kernel_share=1.0)
    library = Score(speedup=2.0, own_kernel_share=0.0)
    summary = summarise([four, slower, library, Score()], noise_floor=0.0)
    assert summary.geomean_correct == pytest.approx(2 ** (1 / 3))
    assert summary.geomean_with_fallback == pytest.approx(math.sqrt(2))


def test_without_problems_nothing_is_claimed() -> None:
    summary = summarise([], noise_floor=0.0)
    assert set(summary.fast_p.values()) == {None}
    assert summary.geomean_correct is summary.geomean_with_fallback is None
    assert summarise([Score()], noise_floor=0.0).geomean_correct is None


@SETTINGS
@given(problems=st.lists(scores, min_size=1, max_size=20), floor=st.floats(0, 0.2))
def test_shares_fall_with_p_and_a_fallback_never_costs(problems: list[Score], floor: float) -> None:
    summary = summarise(problems, floor)
    for shares in (summary.fast_p, summary.fast_p_sure):
        values = [shares[p] or 0.0 for p in THRESHOLDS]
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 1 for value in values)
    assert summary.geomean_with_fallback is not None
    assert summary.geomean_with_fallback >= 1 - 1e-12
