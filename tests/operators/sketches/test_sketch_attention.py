"""Attention: fused and staged against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operators.sketches.cpp.attention import BLOCKED_ATTENTION
from operators.sketches.patterns.attention import find_attention
from problems.catalogue import load_level
from problems.problem import Problem, Scale
from problems.trace import trace

Check = Callable[..., int]
Make = Callable[..., Problem]


def test_catalogue(check_sketch: Check) -> None:
    (problem,) = load_level(1, Scale.TINY, [97])
    check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True}, {"QUERY_BLOCK": 16})


def test_written_out_by_hand(check_sketch: Check, make_problem: Make) -> None:
    forward = "torch.softmax(q @ k.transpose(-2, -1) / 3.0, dim=-1) @ v"
    shapes = {"q": (2, 3, 19, 9), "k": (2, 3, 23, 9), "v": (2, 3, 23, 14)}
    problem = make_problem(forward, shapes)
    check_sketch(BLOCKED_ATTENTION, problem, {}, {"STAGED": True, "ROWS": 6, "VECTORS": 1})


@pytest.mark.parametrize(
    "forward",
    [
        "torch.softmax(q @ k.transpose(-2, -1), dim=-2) @ v",
        "(q @ k.transpose(-2, -1)) @ v",
        "torch.softmax((q + 1) @ k.transpose(-2, -1), dim=-1) @ v",
        "torch.softmax(q @ k.transpose(-2, -1), dim=-1).transpose(-2, -1) @ v",
        "torch.softmax((q @ k.transpose(-2, -1)).transpose(-2, -1), dim=-1) @ v",
        "torch.softmax(q @ k.transpose(-2, -1), dim=-1)[:, :, :1] @ v",
    ],
)
def test_other_graphs_are_left_alone(forward: str, make_problem: Make) -> None:
    shape = (1, 2, 4, 4)
    problem = make_problem(forward, {"q": shape, "k": shape, "v": shape})
    assert find_attention(trace(problem.source)) is None
