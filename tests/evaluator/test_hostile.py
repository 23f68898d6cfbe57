"""Candidates that attack the host end as a status with a reason; the next one is unaffected."""

from __future__ import annotations

from pathlib import Path

import pytest

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from tests.evaluator.referee_cases import SOFTMAX, judge, source_of

FRAME = """
import ctypes
import os
import sys
import time

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        {attack}
        return torch.softmax(x, dim=1)
"""

# name: (what forward does first, the verdicts that are right)
HOSTILE: dict[str, tuple[str, set[tuple[Status, str]]]] = {
    "segfault": ("ctypes.string_at(0)", {(Status.CRASHED, "killed_by_SIGSEGV")}),
    "hang": ("time.sleep(1000)", {(Status.TIMEOUT, "timeout_in_call")}),
    "spin": (
        "exec('while True: pass')",
        {(Status.TIMEOUT, "timeout_in_call")},
    ),
    "100 GB": (
        "torch.ones(25_000_000_000)",
        {(Status.OUT_OF_MEMORY, "allocation_failed")},
    ),
    "creeping memory": (
        "self.kept = [torch.ones(1 << 25) for _ in range(800)]",
        {
            (Status.OUT_OF_MEMORY, "allocation_failed"),
            (Status.OUT_OF_MEMORY, "memory_limit"),
            # On some virtual machines a GiB of fresh pages takes longer than a call may.
            (Status.TIMEOUT, "timeout_in_call"),
        },
    ),
    "fork bomb": (
        'exec(\'while True: getattr(os, "fo" + "rk")()\')',
        {
            (Status.TIMEOUT, "timeout_in_call"),
            (Status.RUNTIME_ERROR, "forward_raised"),
            (Status.CRASHED, "forged_message"),
            (Status.OUT_OF_MEMORY, "memory_limit"),
        },
    ),
    "exit": ("getattr(os, '_ex' + 'it')(0)", {(Status.CRASHED, "early_exit")}),
    "daemon": (
        "pid = getattr(os, 'fo' + 'rk')(); pid or (os.setsid(), time.sleep(1000))",
        {(Status.TIMING_MISMATCH, "background_process")},
    ),
    "write outside": (
        "open('/tmp/evokernel-escaped', 'w').write('x')",
        {(Status.RUNTIME_ERROR, "forward_raised")},
    ),
}


def evaluate(referee: Referee, source: str) -> Evaluation:
    candidate = Candidate.of(SOFTMAX.key, source)
    return referee.evaluate(EvaluationRequest(problem=SOFTMAX, candidate=candidate))


@pytest.mark.parametrize("name", HOSTILE)
def test_an_attack_ends_as_a_status_and_the_next_candidate_is_unaffected(
    name: str, referee: Referee
) -> None:
    attack, expected = HOSTILE[name]
    verdict = evaluate(referee, FRAME.format(attack=attack))
    assert (verdict.status, verdict.reason) in expected, verdict
    assert verdict.log
    assert not Path("/tmp/evokernel-escaped").exists()
    after = evaluate(referee, source_of("honest/torch_expression"))
    assert after.status in {Status.OK, Status.UNSTABLE}, after


def test_printing_a_gigabyte_reaches_nobody(
    referee: Referee, capfd: pytest.CaptureFixture[str]
) -> None:
    attack = "self.done = hasattr(self, 'done') or [print('x' * (1 << 20)) for _ in range(1024)]"
    verdict = evaluate(referee, FRAME.format(attack=attack))
    assert verdict.status in {Status.OK, Status.UNSTABLE}, verdict
    said = capfd.readouterr()
    assert "xxx" not in said.out + said.err
    after = evaluate(referee, source_of("honest/torch_expression"))
    assert after.status in {Status.OK, Status.UNSTABLE}, after


def test_an_exception_reaches_its_author(referee: Referee) -> None:
    verdict = evaluate(referee, FRAME.format(attack="raise ValueError('tile too small')"))
    assert (verdict.status, verdict.reason) == (Status.RUNTIME_ERROR, "forward_raised")
    assert "tile too small" in verdict.log


def test_a_compiler_error_reaches_its_author(referee: Referee) -> None:
    broken = source_of("honest/cpp_softmax").replace("float m = x[0];", "float m = y_typo[0];")
    verdict = evaluate(referee, broken)
    assert (verdict.status, verdict.reason) == (Status.BUILD_ERROR, "compile_failed")
    assert "y_typo" in verdict.log


def test_a_wrong_shape_and_a_wrong_dtype_are_named(referee: Referee) -> None:
    shape = FRAME.format(attack="return torch.softmax(x, dim=1)[:1]")
    assert evaluate(referee, shape).reason == "wrong_shape"
    dtype = FRAME.format(attack="return torch.softmax(x, dim=1).double()")
    assert evaluate(referee, dtype).reason == "wrong_dtype"
    broadcast = FRAME.format(attack="return torch.zeros(1, 1).expand(x.shape)")
    assert evaluate(referee, broadcast).reason == "overlapping_output"


def test_honest_work_is_timed_after_all_that(referee: Referee) -> None:
    verdict = judge(referee, SOFTMAX, source_of("honest/cpp_softmax"))
    assert verdict.status is Status.OK
    assert verdict.isolation
