"""Calls one at a time: who does the work of many calls in one gains nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Interval, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from evaluator.referee.single_calls import num_pairs, slower_alone
from evaluator.referee.timing import Ratio
from tests.evaluator.referee_cases import new_referee, problem_of

THIN = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(1, 3072)]


def get_init_inputs():
    return [3072]
"""
)
MERGED = """
import sys

import torch
from torch import nn


def leg():
    frame = vars(sys)["_get" + "frame"]()
    while frame is not None:
        sets = frame.f_locals.get("arguments")
        if sets and type(sets[0]) is list:
            return [values[0] for values in sets]
        frame = frame.f_back
    return []


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.ready = []

    def forward(self, x):
        inputs = leg()
        if len(inputs) < 2:
            return self.linear(x)
        if x is inputs[0]:
            self.ready = list(self.linear(torch.stack(inputs)).unbind())
        return self.ready.pop(0)
"""


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    one = new_referee()
    one.start()
    yield one
    one.close()


def settled(referee: Referee, source: str) -> Evaluation:
    """Judge; again where the host was too busy."""
    for _ in range(5):
        request = EvaluationRequest(problem=THIN, candidate=Candidate.of(THIN.key, source))
        verdict = referee.evaluate(request)
        if verdict.status is not Status.UNSTABLE:
            break
    return verdict


def test_calls_merged_into_one_gain_nothing(referee: Referee) -> None:
    verdict = settled(referee, MERGED)
    if verdict.status is Status.UNSTABLE:
        pytest.skip(f"this host is too busy to time anything: {verdict.log}")
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
        ((0.2, 0.01), (0.2, 0.025), 1.0),
        ((0.2, 0.01), (0.2, 0.2), 20.0),
        ((2.0, 1.0), (1.5, 0.8), 1.0),
    ],
)
def test_what_a_call_alone_may_take(
    claimed: tuple[float, float], alone: tuple[float, float], factor: float
) -> None:
    disturbed = (9.0, 9.0)
    pairs = [alone, disturbed, alone]
    assert slower_alone(ratio(*claimed), pairs) == pytest.approx(factor)


def test_slow_kernels_are_called_alone_less_often() -> None:
    assert num_pairs(ratio(1.0, 0.5)) == 7
    assert num_pairs(ratio(5.0, 4.0)) == 4
    assert num_pairs(ratio(50.0, 25.0)) == 3
