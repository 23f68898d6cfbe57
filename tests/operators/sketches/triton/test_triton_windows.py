"""Pooling and depthwise convolutions in Triton against torch, in the interpreter."""

from __future__ import annotations

import pytest

from operators.sketches.triton.depthwise import DEPTHWISE_BY_FOURS, DEPTHWISE_CONVOLUTION
from operators.sketches.triton.pooling import POOL_BY_FOURS, SLIDING_POOL
from problems.problem import Problem
from problems.trace import trace
from tests.operators.sketches.made import made_problem
from tests.operators.sketches.triton.interpreter import Case, case_of, cases_of, interpreted


def made(layer: str, shape: tuple[int, ...], forward: str = "self.layer(x)") -> Problem:
    """A problem of one layer."""
    inputs = {"x": f"torch.rand({shape})"}
    return made_problem(forward, inputs, f"self.layer = nn.{layer}", name=layer)


ONCE = ((-2.0, 0.5),)
SMALL = {"BLOCK_C": 2, "BLOCK_H": 4, "BLOCK_W": 16}
POOLS = {
    "MaxPool1d(8, stride=1, padding=4, dilation=3)": (2, 3, 40),
    "MaxPool2d(4, stride=1, padding=1)": (1, 3, 7, 18),
    "MaxPool3d(3, stride=2, padding=1, dilation=3)": (1, 3, 8, 9, 10),
    "AvgPool1d(8, stride=1, padding=4)": (1, 3, 21),
    "AvgPool2d(3)": (1, 3, 10, 20),
    "AvgPool2d((3, 2), stride=1, padding=1, count_include_pad=False)": (1, 2, 6, 9),
    "AvgPool3d(3, stride=2, padding=1)": (1, 2, 5, 6, 7),
    "MaxPool3d(2, stride=1)": (1, 2, 4, 5, 6),
    "MaxPool2d(2, ceil_mode=True)": (1, 3, 7, 9),
    "MaxPool2d(3, stride=(1, 2), dilation=(1, 2))": (1, 2, 9, 16),
}
DEPTHWISE = {
    "Conv2d(3, 3, 3, groups=3, bias=False)": (2, 3, 9, 20),
    "Conv2d(2, 6, (3, 5), groups=2, stride=(1, 2), padding=2, dilation=(1, 3))": (2, 2, 6, 21),
    "Conv2d(3, 3, (3, 1), groups=3)": (1, 3, 9, 8),
    "Conv2d(3, 3, 3, groups=3, stride=2, padding=1, dilation=2)": (1, 3, 9, 12),
    "Conv1d(4, 4, 3, groups=4)": (1, 4, 30),
}
FOURS = {
    POOL_BY_FOURS: {
        "MaxPool1d(8, stride=1, padding=4, dilation=3)": (2, 3, 44),
        "MaxPool2d(4, stride=1, padding=1)": (1, 3, 7, 20),
        "AvgPool1d(8, stride=1, padding=4)": (1, 3, 40),
        "AvgPool1d(3, stride=1)": (1, 3, 37),
        "AvgPool2d((3, 2), stride=1, padding=1, count_include_pad=False)": (1, 2, 6, 22),
        "MaxPool3d((2, 3, 2), stride=1, padding=(1, 0, 1), dilation=(2, 1, 3))": (1, 2, 5, 6, 24),
    },
    DEPTHWISE_BY_FOURS: {
        "Conv2d(3, 3, 3, groups=3, bias=False)": (2, 3, 9, 20),
        "Conv2d(2, 6, (3, 5), groups=2, padding=2, dilation=(1, 3))": (2, 2, 6, 36),
        "Conv2d(3, 3, (3, 1), groups=3)": (1, 3, 9, 16),
        "Conv1d(4, 4, 3, groups=4)": (1, 4, 30),
    },
}


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for layer, shape in POOLS.items():
        cases |= cases_of(
            SLIDING_POOL, made(layer, shape), SMALL, specials="Max" in layer, variations=ONCE
        )
    for layer, shape in DEPTHWISE.items():
        cases |= cases_of(DEPTHWISE_CONVOLUTION, made(layer, shape), SMALL, variations=ONCE)
    for sketch, layers in FOURS.items():
        for layer, shape in layers.items():
            specials = "Max" in layer
            cases |= cases_of(sketch, made(layer, shape), SMALL, specials=specials, variations=ONCE)
    pool, depthwise = "MaxPool2d(2, stride=1)", "Conv2d(3, 3, 3, groups=3)"
    for precision in ("float16", "bfloat16"):
        cases[f"pool {precision}"] = case_of(
            SLIDING_POOL, made(pool, (1, 3, 5, 9)), SMALL, precision=precision
        )
        cases[f"depthwise {precision}"] = case_of(
            DEPTHWISE_CONVOLUTION, made(depthwise, (1, 3, 5, 9)), SMALL, precision=precision
        )
        cases[f"fours {precision}"] = case_of(
            DEPTHWISE_BY_FOURS, made(depthwise, (1, 3, 5, 24)), SMALL, precision=precision
        )
    return cases


CASES = _cases()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return interpreted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == ""


def test_other_graphs_are_left_alone() -> None:
    problem = made("MaxPool2d(2)", (1, 2, 4, 4), "self.layer(x).relu()")
    assert SLIDING_POOL.write(problem, trace(problem.source)) is None
    problem = made("MaxPool2d(2)", (1, 2, 4, 4))
    assert SLIDING_POOL.write(problem, trace(problem.source)) is not None
    assert POOL_BY_FOURS.write(problem, trace(problem.source)) is None
    problem = made("Conv2d(2, 2, 3)", (1, 2, 5, 5))
    assert DEPTHWISE_CONVOLUTION.write(problem, trace(problem.source)) is None
