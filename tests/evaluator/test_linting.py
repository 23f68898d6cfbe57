"""The lint: a problem that says little about a kernel is found, and the reason is named."""

from __future__ import annotations

import pytest

from tests.evaluator.worker_harness import ZygoteHarness

FRAME = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x, y):
        return {forward}


def get_inputs():
    return [torch.randn(128, 64), torch.randn(128, 64)]


def get_init_inputs():
    return []
"""
SOUND = "torch.relu(self.linear(x)) * y"
FLAWED = {
    "relu of a minimum": ("torch.relu(self.linear(x) * y - 100) + 1", "the same whatever is drawn"),
    "zeros": ("self.linear(x) * y * 0", "all outputs are zero"),
    "unused input": ("self.linear(x) + 0 * y", "input 1 changes nothing"),
    "unused weights": ("x * y + 0 * self.linear(x)", "the weights change nothing"),
}


def flaws_of(zygote: ZygoteHarness, forward: str, rows: int = 128) -> str:
    worker = zygote.spawn("trace")
    source = FRAME.format(forward=forward).replace("128", str(rows))
    reply = worker.demand("lint", source=source, precision="fp32", seed=3, domains=[])
    zygote.kill(worker)
    return "; ".join(reply["flaws"])


@pytest.mark.parametrize("name", FLAWED)
def test_a_flaw_is_named(name: str, zygote: ZygoteHarness) -> None:
    forward, reason = FLAWED[name]
    assert reason in flaws_of(zygote, forward)


def test_a_sound_problem_has_none(zygote: ZygoteHarness) -> None:
    assert flaws_of(zygote, SOUND, rows=1024) == ""  # A quick core calls it in 19 us with 128.


def test_small_outputs_are_a_remark_since_the_bound_follows_them(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn("trace")
    source = FRAME.format(forward="(self.linear(x) * y) * 1e-7")
    reply = worker.demand("lint", source=source, precision="fp32", seed=3, domains=[])
    zygote.kill(worker)
    assert reply["flaws"] == []
    assert "by KernelBench's tolerance of 1e-04 zeros pass" in reply["remarks"][0]


def test_in_half_precision_the_remark_is_of_kernelbench_s_tolerance_there(
    zygote: ZygoteHarness,
) -> None:
    source = FRAME.format(forward="(self.linear(x) * y) * 1e-4")
    for precision, remarks in (("fp32", False), ("bf16", True)):
        worker = zygote.spawn("trace")
        reply = worker.demand("lint", source=source, precision=precision, seed=3, domains=[])
        zygote.kill(worker)
        assert ("tolerance of 1e-02 zeros pass" in "".join(reply["remarks"])) is remarks


def test_what_costs_no_more_than_being_called_is_named(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn("trace")
    source = FRAME.format(forward="x[:1]").replace("self.linear = nn.Linear(64, 64)", "pass")
    source = source.replace("forward(self, x, y)", "forward(self, x)")
    source = source.replace(", torch.randn(128, 64)]", "]")
    reply = worker.demand("lint", source=source, precision="fp32", seed=3, domains=[])
    assert "hardly more than calling" in reply["flaws"][-1]
    zygote.kill(worker)


def test_a_broken_problem_says_why(zygote: ZygoteHarness) -> None:
    worker = zygote.spawn("trace")
    source = FRAME.format(forward="x @ y")
    reply = worker.ask("lint", source=source, precision="fp32", seed=3, domains=[])
    assert (reply["ok"], reply["reason"]) == (False, "problem_raised")
    zygote.kill(worker)
