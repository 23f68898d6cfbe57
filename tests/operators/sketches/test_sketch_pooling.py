"""Pooling: every direction, structure and odd size against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from operators.sketches.cpp.pooling import SEPARABLE_POOL
from operators.sketches.patterns.pooling import find_pooling
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]


@pytest.mark.parametrize("problem", load_level(1, Scale.TINY, range(41, 47)), ids=lambda p: p.name)
def test_catalogue(problem: Problem, check_sketch: Check) -> None:
    check_sketch(SEPARABLE_POOL, problem)


@pytest.mark.parametrize(
    "layer",
    ["MaxPool3d(2, 2, 1, 2)", "AvgPool3d((3, 2, 3), (2, 1, 1), 1, count_include_pad=False)"],
)
def test_every_structure(layer: str, check_sketch: Check, make_problem: Make) -> None:
    problem = make_problem("self.pool(x)", {"x": (2, 2, 5, 7, 37)}, f"self.pool = nn.{layer}")
    assert check_sketch(SEPARABLE_POOL, problem, each=True) > 5


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("MaxPool1d(8, 1, 4, 3)", (1, 3, 61)),
        ("MaxPool1d(5, 1)", (3, 40)),
        ("MaxPool2d((3, 2), ceil_mode=True)", (1, 2, 10, 9)),
        ("MaxPool2d(3, 1, 1)", (1, 1, 1, 1)),
        ("AvgPool1d(4, 3)", (2, 2, 17)),
        ("AvgPool1d(8, 1, 4)", (1, 2, 100)),
        ("AvgPool2d(3, 2, 1, divisor_override=5)", (1, 2, 9, 33)),
        ("AvgPool2d(11)", (1, 1, 23, 50)),
    ],
)
def test_odd_windows(
    layer: str, shape: tuple[int, ...], check_sketch: Check, make_problem: Make
) -> None:
    problem = make_problem("self.pool(x)", {"x": shape}, f"self.pool = nn.{layer}")
    turned = {"VERTICAL_FIRST": False, "STAGED": True, "DOUBLING": False}
    check_sketch(SEPARABLE_POOL, problem, {}, turned, {"SPREAD": False})


def test_nan_spreads_as_in_torch(
    check_sketch: Check, make_problem: Make, build_folder: object
) -> None:
    problem = make_problem("self.pool(x)", {"x": (1, 1, 6, 40)}, "self.pool = nn.MaxPool2d(3, 1)")
    check_sketch(SEPARABLE_POOL, problem)
    source = SEPARABLE_POOL.write(problem, trace(problem.source))
    assert source is not None
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    x = torch.rand(1, 1, 6, 40)
    x[0, 0, 2, 11] = float("nan")
    x[0, 0, 4, 30] = float("-inf")
    expected = torch.nn.MaxPool2d(3, 1)(x)
    torch.testing.assert_close(namespace["ModelNew"]()(x), expected, equal_nan=True, rtol=0, atol=0)


def test_ceil_mode_mean_is_left_alone(make_problem: Make) -> None:
    build = "self.pool = nn.AvgPool2d(3, 2, ceil_mode=True)"
    problem = make_problem("self.pool(x)", {"x": (1, 1, 8, 8)}, build)
    assert find_pooling(trace(problem.source)) is None


def test_indices_are_left_alone(make_problem: Make) -> None:
    build = "self.pool = nn.MaxPool2d(2, return_indices=True)"
    problem = make_problem("self.pool(x)[1]", {"x": (1, 1, 8, 8)}, build)
    assert SEPARABLE_POOL.write(problem, trace(problem.source)) is None
