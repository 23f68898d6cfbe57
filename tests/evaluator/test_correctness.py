"""Outputs are compared with float64: classes, errors, bounds and what passes for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from archives.evaluation import Status
from evaluator.referee.arrays import Array, filled, narrow
from evaluator.referee.correctness import (
    Bound,
    Expected,
    Mismatch,
    bound_of,
    compare,
    deviation,
    mismatch_of_spec,
    null_passes,
)

SHAPE = (300, 700)  # more than three chunks


def exp_case(seed: int = 0) -> tuple[NDArray[np.float32], Expected, Bound]:
    x = np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    expected = Expected.of(Array.of(exact), Array.of(np.exp(x)))
    assert expected.deviation is not None
    return x, expected, bound_of([expected.deviation], "float32")


def verdict(got: NDArray[np.float32], expected: Expected, bound: Bound) -> Mismatch | None:
    return compare(Array.of(got), expected, bound)[1]


def test_the_reference_itself_and_the_rounded_exact_result_pass() -> None:
    x, expected, bound = exp_case()
    assert verdict(np.exp(x), expected, bound) is None
    assert verdict(np.exp(x.astype(np.float64)).astype(np.float32), expected, bound) is None


@given(at=st.integers(0, SHAPE[0] * SHAPE[1] - 1), factor=st.sampled_from([0.9, 1.1, 2.0, -1.0]))
@settings(max_examples=25, deadline=None)
def test_a_single_wrong_element_is_found_and_named(at: int, factor: float) -> None:
    x, expected, bound = exp_case()
    got = np.exp(x)
    got.reshape(-1)[at] = factor * got.reshape(-1)[at] + 0.01
    found = verdict(got, expected, bound)
    assert found is not None
    assert found.status is Status.WRONG_VALUE
    assert f"index {at}" in found.log


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_single_nan_or_infinity_is_found(value: float) -> None:
    x, expected, bound = exp_case()
    got = np.exp(x)
    got[250, 3] = value
    found = verdict(got, expected, bound)
    assert found is not None
    assert f"index {250 * SHAPE[1] + 3}" in found.log


def test_nan_and_infinities_must_be_where_the_reference_has_them() -> None:
    x = np.random.default_rng(1).standard_normal(SHAPE)
    x[0, 0], x[1, 1], x[2, 2] = np.nan, np.inf, -np.inf
    expected = Expected.of(Array.of(x), Array.of(x.astype(np.float32)))
    assert expected.deviation is not None
    bound = bound_of([expected.deviation], "float32")
    right = x.astype(np.float32)
    assert verdict(right, expected, bound) is None
    for row, value in ((0, 1.0), (1, np.nan), (2, np.inf)):
        wrong = right.copy()
        wrong[row, row] = value
        assert verdict(wrong, expected, bound) is not None


def test_what_overflows_in_the_reference_may_be_anything() -> None:
    exact = np.full(SHAPE, 2.0)
    own = exact.astype(np.float32)
    exact[5, 5], own[5, 5] = 1e300, np.inf
    own[7, 7] = np.inf  # the reference overflows on the way to a finite result
    expected = Expected.of(Array.of(exact), Array.of(own))
    bound = Bound(rms=1e-6, peak=1e-6)
    got = np.full(SHAPE, 2.0, dtype=np.float32)
    got[5, 5] = np.inf
    assert verdict(got, expected, bound) is None
    got[5, 5] = 3e38
    assert verdict(got, expected, bound) is not None


@pytest.mark.parametrize("coarse", ["float16", "bfloat16"])
def test_lower_precision_fails(coarse: str) -> None:
    x, expected, bound = exp_case()
    if coarse == "float16":
        got = np.exp(x).astype(np.float16).astype(np.float32)
    else:
        got = (np.exp(x).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    assert verdict(got, expected, bound) is not None


def test_an_honest_sum_in_order_passes() -> None:
    x = np.random.default_rng(2).random((256, 4096)).astype(np.float32)
    exact = x.astype(np.float64).sum(axis=1)
    pairwise = x.sum(axis=1)
    in_order = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
    expected = Expected.of(Array.of(exact), Array.of(pairwise))
    assert expected.deviation is not None
    eight = sum(np.cumsum(x[:, i::8], axis=1, dtype=np.float32)[:, -1] for i in range(8))
    bound = bound_of([expected.deviation], "float32")
    assert verdict(np.asarray(eight, dtype=np.float32), expected, bound) is None
    assert np.abs(in_order - exact).max() > 0


def test_integers_must_be_equal() -> None:
    exact = Array.of(np.arange(1000))
    expected = Expected.of(exact, exact)
    assert compare(exact, expected, Bound(rms=0, peak=0))[1] is None
    off = np.arange(1000)
    off[999] = 0
    found = compare(Array.of(off), expected, Bound(rms=0, peak=0))[1]
    assert found is not None
    assert "999" in found.log


def test_what_is_too_large_for_float32_squares_does_not_permit_any_error() -> None:
    expected = np.full(1000, 3.0, dtype=np.float32)
    expected[0] = 1e25
    got = expected.copy()
    got[1] = -1e17
    found = deviation(Array.of(got), Array.of(expected), Array.of(expected))
    assert found.scale == pytest.approx(1e25 / np.sqrt(1000))
    assert found.peak == pytest.approx(1e17 / found.scale)


def test_half_precisions_are_widened_exactly() -> None:
    values = np.array([1.0, -2.5, 0.15625], dtype=np.float32)
    bits = (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    assert narrow(Array(values=bits, dtype="bfloat16"), 0, 3).tolist() == values.tolist()
    assert narrow(filled((3,), "bfloat16", 1.0), 0, 3).tolist() == [1, 1, 1]


def test_number_shape_and_dtype_are_named() -> None:
    one = Array.of(np.zeros((2, 3), dtype=np.float32))
    assert mismatch_of_spec([one], [one]) is None
    for got, reason in (
        ([], "wrong_output_count"),
        ([Array.of(np.zeros((3, 2), dtype=np.float32))], "wrong_shape"),
        ([Array.of(np.zeros((2, 3)))], "wrong_dtype"),
    ):
        found = mismatch_of_spec(got, [one])
        assert found is not None
        assert found.reason == reason


def test_tensors_must_lie_inside_their_memory() -> None:
    memory = np.zeros(1024, dtype=np.uint8)
    assert Array.within(memory, 0, (256,), (1,), "float32").numel == 256
    for arguments in (
        (8, (256,), (1,), "float32"),
        (0, (256,), (2,), "float32"),
        (-4, (1,), (1,), "float32"),
        (0, (1,), (), "float32"),
        (0, (1,), (1,), "float128"),
    ):
        with pytest.raises(ValueError, match=r"tensor|malformed|unknown"):
            Array.within(memory, *arguments)


def test_what_passes_without_computing_is_named() -> None:
    def case(exact: NDArray[np.float64]) -> tuple[Expected, Bound]:
        expected = Expected.of(Array.of(exact), Array.of(exact.astype(np.float32)))
        assert expected.deviation is not None
        return expected, bound_of([expected.deviation], "float32")

    x = np.random.default_rng(3).random(SHAPE).astype(np.float32)
    inputs = [Array.of(x)]
    assert null_passes(*case(np.zeros(SHAPE)), inputs, [0.25]) == "zeros"
    assert null_passes(*case(np.full(SHAPE, 0.25)), inputs, [0.25]) == "constant"
    assert null_passes(*case(np.maximum(x.astype(np.float64), 0)), inputs, [0.25]) == "input0"
    assert null_passes(*case(np.maximum(x.astype(np.float64) - 0.5, 0)), inputs, [0.25]) is None
    overflown = Expected.of(
        Array.of(np.full(SHAPE, 2.0)), Array.of(np.full(SHAPE, np.inf, dtype=np.float32))
    )
    assert null_passes(overflown, Bound(rms=1e-6, peak=1e-6), inputs, [0.25]) == "overflow"


def test_a_single_number_may_not_be_guessed_from_other_sets() -> None:
    exact = np.array(1.2345678)
    expected = Expected.of(Array.of(exact), Array.of(exact.astype(np.float32)))
    bound = Bound(rms=1e-6, peak=1e-6)
    assert null_passes(expected, bound, [], [1.2346]) is None
    assert null_passes(expected, bound, [], [1.2346, 1.2345678]) == "constant"
