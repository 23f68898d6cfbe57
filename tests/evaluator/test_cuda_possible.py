"""Verdicts on times that a GPU's datasheet does not allow."""

from __future__ import annotations

import pytest

from archives.evaluation import Interval, Status
from evaluator.referee.cuda.possible import SpeedOfLight
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.timing import Ratio
from problems.catalogue import load_level
from problems.graph import OperatorGraph
from problems.problem import Problem, Scale
from problems.trace import trace


@pytest.fixture(scope="module")
def relu() -> tuple[Problem, OperatorGraph]:
    """The official sizes: 6.4 GB read and 6.4 GB written, on an H200 2.7 ms at least."""
    [problem] = load_level(1, Scale.OFFICIAL, [19])
    return problem, trace(problem.source)


def measured(latency_ms: float) -> Ratio:
    speedup = 3.06 / latency_ms
    return Ratio(
        speedup=speedup,
        interval=Interval(low=speedup, high=speedup),
        latency_ms=latency_ms,
        reference_ms=3.06,
        num_blocks=20,
        width=1.0,
    )


@pytest.mark.parametrize(
    ("latency_ms", "reason"), [(2.0, "faster_than_memory"), (0.001, "faster_than_a_launch")]
)
def test_a_time_below_the_bound_is_impossible(
    relu: tuple[Problem, OperatorGraph], latency_ms: float, reason: str
) -> None:
    with pytest.raises(CandidateFailed) as caught:
        SpeedOfLight("NVIDIA H200").require_possible(*relu, measured(latency_ms))
    assert (caught.value.status, caught.value.reason) == (Status.IMPOSSIBLE, reason)


def test_a_time_that_the_device_allows_passes(relu: tuple[Problem, OperatorGraph]) -> None:
    SpeedOfLight("NVIDIA H200").require_possible(*relu, measured(2.9))


def test_an_unknown_device_and_an_unknown_graph_are_held_against_nothing(
    relu: tuple[Problem, OperatorGraph],
) -> None:
    SpeedOfLight("Somebody's GPU").require_possible(*relu, measured(0.001))
    SpeedOfLight("NVIDIA H200").require_possible(relu[0], None, measured(0.001))
