"""An index of a tied value is right; any other index that differs is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.referee.arrays import Array
from evaluator.referee.correctness import Bound, Expected, compare
from evaluator.referee.indices import Indices, Pointer, pointers
from problems.graph import OperatorGraph
from problems.trace import trace

EXACT = Bound(rms=0.0, peak=0.0)

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.randn(4, 5, 6)]


def get_init_inputs():
    return []
"""


def graph_of(expression: str) -> OperatorGraph:
    return trace(MODULE.format(expression=expression))


@pytest.mark.parametrize(
    ("expression", "output", "dimension"),
    [
        ("torch.argmax(x, dim=1)", 0, 1),
        ("x.argmin(-1, keepdim=True)", 0, -1),
        ("torch.max(x, dim=2)", 1, 2),
        ("(x.sum(), torch.min(x, 0)[1])", 1, 0),
    ],
)
def test_indices_into_an_input_are_found(expression: str, output: int, dimension: int) -> None:
    found = pointers(graph_of(expression))
    assert found == {output: Pointer(input_number=0, dimension=dimension)}


@pytest.mark.parametrize(
    "expression",
    ["x.exp().argmax(dim=1)", "x.argmax()", "x.argmax(1) + 1", "x.relu_().argmax(1)", "x.sum(1)"],
)
def test_other_outputs_must_be_equal(expression: str) -> None:
    assert pointers(graph_of(expression)) == {}


def expected_of(source: np.ndarray, dimension: int, *, keepdim: bool = False) -> Expected:
    values = source.argmax(dimension, keepdims=keepdim)
    plain = Array.of(values)
    exact = Indices.of_output(plain, Array.of(source), dimension)
    return Expected.of(exact, plain)


@given(
    seed=st.integers(0, 2**32 - 1), dimension=st.sampled_from([0, 1, 2, -1]), keepdim=st.booleans()
)
def test_an_index_passes_exactly_where_it_points_at_the_largest_value(
    seed: int, dimension: int, keepdim: bool
) -> None:
    rng = np.random.default_rng(seed)
    source = rng.integers(3, size=(4, 5, 6)).astype(np.float32)
    expected = expected_of(source, dimension, keepdim=keepdim)
    got = rng.integers(source.shape[dimension], size=expected.own.shape)
    lines = got if keepdim else np.expand_dims(got, dimension)
    wrong = np.take_along_axis(source, lines, dimension) != source.max(dimension, keepdims=True)
    deviation, found = compare(Array.of(got), expected, EXACT)
    assert deviation.wrong_class == np.count_nonzero(wrong)
    assert (found is None) == (not wrong.any())


@pytest.mark.parametrize("index", [-1, 6, 2**40])
def test_an_index_outside_is_wrong(index: int) -> None:
    expected = expected_of(np.ones((2, 6), np.float32), 1)
    got = np.array([5, index])
    deviation, found = compare(Array.of(got), expected, EXACT)
    assert deviation.wrong_class == 1
    assert found is not None
    assert deviation.first == 1


def test_nan_ties_with_nan_only() -> None:
    source = np.array([[1, np.nan, 3, np.nan]], np.float32)
    expected = expected_of(source, 1)
    assert compare(Array.of(np.array([3])), expected, EXACT)[1] is None
    assert compare(Array.of(np.array([2])), expected, EXACT)[1] is not None


def test_kept_values_stay_when_their_memory_is_used_again() -> None:
    source = np.array([[2, 2, 1]], np.float32)
    plain = Array.of(np.array([0]))
    exact = Indices.of_output(plain, Array.of(source), 1).kept()
    source[:] = [[1, 0, 2]]
    assert compare(Array.of(np.array([1])), Expected.of(exact, plain), EXACT)[1] is None
