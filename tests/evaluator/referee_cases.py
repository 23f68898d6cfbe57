"""Problems, candidates and a referee for the tests of the evaluator's referee."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.evaluation import Evaluation, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.cpu import CpuStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from problems.problem import Domain, Problem, Scale

__all__ = [
    "FOLDER",
    "GIB",
    "LINEAR",
    "SOFTMAX",
    "TRIES",
    "first_stable",
    "judge",
    "new_referee",
    "problem_of",
    "source_of",
]

FOLDER = Path(__file__).parent
TRIES = 5
GIB = 1 << 30


def problem_of(source: str, *, name: str = "Test", domains: Sequence[Domain] = ()) -> Problem:
    return Problem(
        level=0,
        id=1,
        name=name,
        family="test",
        scale=Scale.CUSTOM,
        source=source,
        domains=tuple(domains),
    )


SOFTMAX = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(128, 2048)]


def get_init_inputs():
    return []
""",
    name="Softmax",
)
LINEAR = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(256, 256)]


def get_init_inputs():
    return [256]
""",
    name="Linear",
)


def source_of(name: str) -> str:
    """Text of a file beside the tests, such as "honest/cpp_softmax"."""
    return (FOLDER / f"{name}.py").read_text()


def new_referee() -> Referee:
    """A referee that is quick to give up."""
    deadlines = Deadlines(build_s=20, call_s=3)
    return Referee(CpuStation(deadlines=deadlines, candidate_bytes=GIB))


def judge(
    referee: Referee,
    problem: Problem,
    source: str,
    *,
    configurations: Sequence[Configuration] = (),
    purpose: Purpose = Purpose.SEARCH,
) -> Evaluation:
    """Evaluate; again where the host was too busy; skip the test where it stays so."""
    candidate = Candidate.of(problem.key, source)
    request = EvaluationRequest(
        problem=problem,
        candidate=candidate,
        configurations=tuple(configurations),
        purpose=purpose,
    )
    verdict = first_stable(referee, request)
    if verdict.status is Status.UNSTABLE:
        pytest.skip(f"this host is too busy to time anything: {verdict.log}")
    return verdict


def first_stable(
    referee: Referee,
    request: EvaluationRequest,
    is_wanted: Callable[[Evaluation], object] = lambda verdict: False,
) -> Evaluation:
    """Evaluate; again where the host was too busy, which may be the last verdict too.

    Args:
        referee: Who is asked.
        request: What.
        is_wanted: Whether even a verdict that the host was too busy will do.
    """
    for _ in range(TRIES):
        verdict = referee.evaluate(request)
        if verdict.status is not Status.UNSTABLE or is_wanted(verdict):
            break
    return verdict
