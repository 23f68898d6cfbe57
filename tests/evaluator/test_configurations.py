"""Candidates with a declared space, and those whose weights have names of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archives.candidate import Candidate
from archives.evaluation import Reuse, Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from tests.evaluator.referee_cases import (
    LINEAR,
    SOFTMAX,
    judge,
    problem_of,
    source_of,
)

RELU = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(8):
            x = torch.relu(x)
        return x


def get_inputs():
    return [torch.rand(512, 512) + 1]


def get_init_inputs():
    return []
"""
)
COPY_OR_RELU = """
import torch
from torch import nn

TUNE_PARAMS = {"WAY": ["copy", "relu"]}
CONFIG = {"WAY": "copy"}


class ModelNew(nn.Module):
    def forward(self, x):
        if CONFIG["WAY"] == "copy":
            return x.clone()
        for _ in range(60):
            torch.relu(x)
        return torch.relu(x)
"""


SLOWER_OR_NOT = """
import torch
from torch import nn

TUNE_PARAMS = {"EXTRA": [0, 40]}
CONFIG = {"EXTRA": 0}


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        for _ in range(CONFIG["EXTRA"]):
            self.linear(x)
        return torch.relu(self.linear(x))
"""
DIES_WHEN_CALLED_OFTEN = """
import ctypes

import torch
from torch import nn

TUNE_PARAMS = {"DIES": [0, 1, 2]}
CONFIG = {"DIES": 0}


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        if CONFIG["DIES"] and self.calls > 2:
            ctypes.string_at(0)
        for _ in range(0 if CONFIG["DIES"] else 60):
            torch.relu(x)
        return torch.relu(x)
"""


@pytest.mark.parametrize("name", ["torch_expression", "cpp_softmax"])
def test_an_honest_kernel_passes_and_its_share_is_known(name: str, referee: Referee) -> None:
    verdict = judge(referee, SOFTMAX, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict
    assert verdict.rung is Rung.TIME
    own = name == "cpp_softmax"
    assert verdict.facts.own_kernel_share == pytest.approx(1.0 if own else 0.0, abs=0.2)
    assert (verdict.facts.reuse is Reuse.LIBRARY) == (not own)


@pytest.mark.parametrize("name", ["cached_weights", "renamed_weights"])
def test_an_honest_kernel_with_weights_passes(name: str, referee: Referee) -> None:
    verdict = judge(referee, LINEAR, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict


def test_weights_baked_in_at_construction_are_found(referee: Referee) -> None:
    baked = source_of("honest/cached_weights").replace(
        "if self.linear.weight._version != self.version:", "if self.version == -1:"
    )
    verdict = judge(referee, LINEAR, baked)
    assert (verdict.status, verdict.reason) == (Status.WRONG_VALUE, "wrong_value")
    assert "spiked" in verdict.log


def test_configurations_are_raced_and_the_best_one_wins(referee: Referee) -> None:
    points = [{"UNROLL": 16}, {"UNROLL": 64}, {"UNROLL": 0}]
    verdict = judge(referee, SOFTMAX, source_of("honest/tuned_softmax"), configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration in points[:2]
    tried = {tuple(r.configuration.values()): r for r in verdict.configurations}
    assert [tried[(n,)].status for n in (16, 64)] == [Status.OK, Status.OK]
    assert tried[(0,)].status is not Status.OK
    assert tried[(0,)].latency_ms is None
    assert all((tried[(n,)].latency_ms or 0) > 0 for n in (16, 64))


def test_configurations_that_are_not_built_in_time_are_left_out(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = referee._station._bench  # type: ignore[attr-defined]
    hurried = replace(bench, deadlines=replace(bench.deadlines, builds_s=-1.0))
    monkeypatch.setattr(referee._station, "_bench", hurried)
    points = [{"UNROLL": 16}, {"UNROLL": 64}]
    verdict = judge(referee, SOFTMAX, source_of("honest/tuned_softmax"), configurations=points)
    assert verdict.status is Status.OK, verdict
    assert [tried.configuration for tried in verdict.configurations] == points[:1]
    assert verdict.configuration == points[0]


def test_configurations_of_a_program_without_any_fail(referee: Referee) -> None:
    source = source_of("honest/torch_expression")
    request = EvaluationRequest(
        problem=SOFTMAX,
        candidate=Candidate.of(SOFTMAX.key, source),
        configurations=({"UNROLL": 1},),
    )
    verdict = referee.evaluate(request)
    assert (verdict.status, verdict.reason) == (Status.BUILD_ERROR, "no_configuration")


def test_a_configuration_that_is_right_on_one_set_alone_is_passed_over(referee: Referee) -> None:
    """The quick one is right for positive inputs, which is all that a first look shows."""
    points = [{"WAY": "copy"}, {"WAY": "relu"}]
    verdict = judge(referee, RELU, COPY_OR_RELU, configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration == {"WAY": "relu"}
    tried = {str(r.configuration["WAY"]): r.status for r in verdict.configurations}
    assert tried == {"copy": Status.WRONG_VALUE, "relu": Status.OK}


def test_a_program_whose_configurations_all_fail_the_check_fails(referee: Referee) -> None:
    source = COPY_OR_RELU.replace("torch.relu(x)", "x + 0.0")
    points = [{"WAY": "copy"}, {"WAY": "relu"}]
    verdict = judge(referee, RELU, source, configurations=points)
    assert (verdict.status, verdict.rung) == (Status.WRONG_VALUE, Rung.BUILD)
    assert [r.status for r in verdict.configurations] == [Status.WRONG_VALUE] * 2


def test_configurations_are_raced_where_a_problem_has_weights(referee: Referee) -> None:
    points = [{"EXTRA": 0}, {"EXTRA": 40}]
    verdict = judge(referee, LINEAR, SLOWER_OR_NOT, configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration == {"EXTRA": 0}
    assert [r.status for r in verdict.configurations] == [Status.OK] * 2


def test_a_configuration_that_dies_in_the_race_leaves_the_others(referee: Referee) -> None:
    points = [{"DIES": 1}, {"DIES": 0}, {"DIES": 2}]
    verdict = judge(referee, RELU, DIES_WHEN_CALLED_OFTEN, configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration == {"DIES": 0}
    assert Status.CRASHED in [r.status for r in verdict.configurations]


def test_what_a_failed_program_was_not_checked_for_is_not_called_right(referee: Referee) -> None:
    """All of them are right on the set of the first look; three are enough to give it up."""
    source = COPY_OR_RELU.replace('["copy", "relu"]', "[0, 1, 2, 3, 4]")
    source = source.replace('CONFIG = {"WAY": "copy"}', 'CONFIG = {"WAY": 0}')
    source = source.replace('CONFIG["WAY"] == "copy"', 'CONFIG["WAY"] < 9')
    verdict = judge(referee, RELU, source, configurations=[{"WAY": n} for n in range(5)])
    assert verdict.status is Status.WRONG_VALUE
    assert [r.status for r in verdict.configurations] == [Status.WRONG_VALUE] * 3
