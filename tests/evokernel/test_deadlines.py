"""Deadlines of candidates: from a setting to the referee that holds to them."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import pytest

from archives.candidate import Candidate
from archives.evaluation import Rung, Status
from archives.records import RunRecord
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import new_referee
from evokernel.config import EvaluationConfig, resolve
from evokernel.deadlines import deadlines_of, kept_deadlines
from problems.errors import ConfigError
from tests.evaluator.referee_cases import SOFTMAX

TRITON = "import triton\n" + "@triton.jit\ndef f(): pass\n" * 8
SLOW = """
import time

import torch
from torch import nn

time.sleep({build_s})


class ModelNew(nn.Module):
    def forward(self, x):
        time.sleep({call_s})
        return torch.softmax(x, dim=1)
"""


def test_the_usual_deadlines_are_those_of_the_device() -> None:
    assert deadlines_of(EvaluationConfig(), "cpu") == Deadlines(check_s=10, time_s=10)
    assert deadlines_of(EvaluationConfig(), "cuda").of_build("CUDA_SOURCE = ''") == 240
    assert deadlines_of(EvaluationConfig(), "cuda").of_build(TRITON) == 90
    assert Deadlines.of("cpu").of_build("CPP_SOURCE = ''") == 60


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_setting_is_a_deadline_of_its_own(device: str) -> None:
    settings = ["evaluation.build_s=7", "evaluation.check_s=2.5", "evaluation.time_s=4"]
    found = deadlines_of(resolve(settings=settings).evaluation, device)
    assert (found.of_build("CUDA_SOURCE = ''"), found.of_build(TRITON)) == (7, 7)
    assert found.of_check(100) == pytest.approx(2.5 + 3)
    assert found.of_leg(4, 100) == pytest.approx(4 + 12)
    assert found.of_calls(4, 100) == pytest.approx(10 + 12)
    assert found.context_s == Deadlines.of(device).context_s


def test_a_longer_deadline_of_a_build_is_triton_s_too() -> None:
    found = deadlines_of(resolve(settings=["evaluation.build_s=900"]).evaluation, "cuda")
    assert found.of_build(TRITON) == found.of_build("CUDA_SOURCE = ''") == 900


@pytest.mark.parametrize("name", ["build_s", "check_s", "time_s"])
@pytest.mark.parametrize("value", ["0", "-1", "inf", "'soon'"])
def test_what_are_no_seconds_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"evaluation\.{name}"):
        resolve(settings=[f"evaluation.{name}={value}"])


def test_a_run_is_verified_by_the_deadlines_that_it_keeps() -> None:
    config = resolve(settings=["evaluation.time_s=3", "evaluation.build_s=9"])
    run = RunRecord(
        name="run", created="", config_json=config.model_dump_json(), rng_seed=0, scale="tiny"
    )
    assert kept_deadlines(run, "cuda") == deadlines_of(config.evaluation, "cuda")
    older = replace(run, config_json='{"evaluation": {"of_another_version": 1}}')
    assert kept_deadlines(older, "cuda") == Deadlines.of("cuda")
    broken = replace(run, config_json='{"evaluation": {"time_s": "soon"}}')
    with pytest.raises(ConfigError, match=r"'run' has evaluation\.time_s = 'soon'"):
        kept_deadlines(broken, "cuda")


@pytest.mark.parametrize(
    ("setting", "build_s", "call_s", "reason", "rung"),
    [
        ("evaluation.build_s=2", 30.0, 0.0, "timeout_in_open", Rung.SCREEN),
        ("evaluation.check_s=1", 0.0, 8.0, "timeout_in_call", Rung.BUILD),
        ("evaluation.time_s=0.1", 0.0, 0.7, "timeout_in_leg", Rung.CHECK),
    ],
)
def test_a_setting_reaches_the_referee(
    setting: str, build_s: float, call_s: float, reason: str, rung: Rung
) -> None:
    config = resolve(settings=[setting])
    referee = new_referee("cpu", deadlines=deadlines_of(config.evaluation, "cpu"))
    source = SLOW.format(build_s=build_s, call_s=call_s)
    request = EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, source))
    try:
        referee.start()
        start = perf_counter()
        verdict = referee.evaluate(request)
        took_s = perf_counter() - start
    finally:
        referee.close()
    assert (verdict.status, verdict.reason) == (Status.TIMEOUT, reason)
    assert verdict.rung is rung
    assert took_s < 25, "by the usual deadlines it would have passed that step"
