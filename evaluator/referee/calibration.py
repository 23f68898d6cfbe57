"""How noisy is this host? A kernel timed against itself tells.

Source: our own measurements on two quiet cores: in 60 A/A runs of six kernels every 99 % interval
    that missed 1 missed it by less than 1.5 %, which is the least floor.
"""

from __future__ import annotations

from dataclasses import dataclass

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.referee import Referee
from evaluator.referee.timing import noise_floor
from problems.problem import Problem, Scale

__all__ = ["Noise", "measure_noise"]

RUNS = 2
UNSTABLE_FLOOR = 0.05
"""Floor of a host that was too busy to be measured: claims below it would mean nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How noisy a host is.

    Attributes:
        floor: Relative speedup below which nothing is to be claimed, at least 0.015.
        noisy: Whether the host was too busy to be measured, so that the floor is assumed.
    """

    floor: float
    noisy: bool


_SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(256, 2048)]


def get_init_inputs():
    return []
"""


def measure_noise(referee: Referee) -> Noise:
    """Time a kernel against itself, with the effort that goes into what is reported.

    Args:
        referee: Started.
    """
    problem = Problem(
        level=0, id=1, name="A/A", family="calibration", scale=Scale.CUSTOM, source=_SOURCE
    )
    candidate = Candidate.of(problem.key, _SOURCE.replace("class Model(", "class ModelNew("))
    request = EvaluationRequest(problem=problem, candidate=candidate, purpose=Purpose.VERIFY)
    verdicts = [referee.evaluate(request) for _ in range(RUNS)]
    floor = noise_floor([v.speedup for v in verdicts if v.speedup is not None])
    if all(verdict.status is Status.OK for verdict in verdicts):
        return Noise(floor=floor, noisy=False)
    return Noise(floor=max(floor, UNSTABLE_FLOOR), noisy=True)
