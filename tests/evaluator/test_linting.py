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
DRAWN_ALIKE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.rand(64, 1024)]


def get_init_inputs():
    return []
"""
"""Weights and inputs are uniform: drawn under one seed they are the same numbers."""
PATTERN = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({layers})

    def forward(self, x):
        x = self.layers(x)
        return {outputs}


def get_inputs():
    return [torch.rand({shape})]


def get_init_inputs():
    return []
"""
DEEP = "*(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(12))"
PATTERNS = {
    "a deep network": (DEEP, "x", "64, 512", "the answer to other inputs passes"),
    "one softmax after another": (
        "nn.Linear(512, 512), nn.Softmax(1)",
        "torch.softmax(x, 1)",
        "64, 512",
        "a constant passes",
    ),
    "a softmax over a volume": (
        "nn.AvgPool2d(2), nn.Conv2d(4, 8, 3)",
        "torch.softmax(x.clamp(0, 1).flatten(2), 2)",
        "2, 4, 300, 300",
        "zeros pass",
    ),
}
SOUND = "torch.relu(self.linear(x)) * y"
FLAWED = {
    "relu of a minimum": ("torch.relu(self.linear(x) * y - 100) + 1", "the same whatever is drawn"),
    "zeros": ("self.linear(x) * y * 0", "all outputs are zero"),
    "unused input": ("self.linear(x) + 0 * y", "input 1 changes nothing"),
    "unused weights": ("x * y + 0 * self.linear(x)", "the weights change nothing"),
}


def seen_of(zygote: ZygoteHarness, source: str, seed: int = 3) -> tuple[str, str]:
    """Flaws and remarks."""
    worker = zygote.spawn("trace")
    reply = worker.demand("lint", source=source, precision="fp32", seed=seed, domains=[])
    zygote.kill(worker)
    return "; ".join(reply["flaws"]), "; ".join(reply["remarks"])


def flaws_of(zygote: ZygoteHarness, forward: str, rows: int = 128) -> str:
    return seen_of(zygote, FRAME.format(forward=forward).replace("128", str(rows)))[0]


@pytest.mark.parametrize("name", FLAWED)
def test_a_flaw_is_named(name: str, zygote: ZygoteHarness) -> None:
    forward, reason = FLAWED[name]
    assert reason in flaws_of(zygote, forward)


@pytest.mark.parametrize(
    "forward", [SOUND, "torch.max(self.linear(x) * y, 1)", "(self.linear(x) * y > 0, y)"]
)
def test_a_sound_problem_has_none(zygote: ZygoteHarness, forward: str) -> None:
    # A quick core calls it in 19 us with 128 rows.
    source = FRAME.format(forward=forward).replace("128", "1024")
    assert seen_of(zygote, source) == ("", "")


@pytest.mark.parametrize("seed", [3, 2**62])
def test_inputs_are_not_the_numbers_that_the_weights_are(zygote: ZygoteHarness, seed: int) -> None:
    source = DRAWN_ALIKE.format(forward="3 + 1e-4 * self.linear(x)")
    flaws, _ = seen_of(zygote, source, seed)
    assert flaws == "the output is the same whatever is drawn"
    source = DRAWN_ALIKE.format(forward="1e-3 * torch.softmax(self.linear(x), 1)")
    flaws, remarks = seen_of(zygote, source, seed)
    assert flaws == ""
    assert "zeros pass" in remarks


@pytest.mark.parametrize("name", PATTERNS)
def test_what_computes_nothing_and_passes_by_kernelbench_s_tolerance_is_named(
    name: str, zygote: ZygoteHarness
) -> None:
    layers, outputs, shape, remark = PATTERNS[name]
    source = PATTERN.format(layers=layers, outputs=outputs, shape=shape)
    flaws, remarks = seen_of(zygote, source)
    assert flaws == ""
    assert remarks.startswith("by KernelBench's tolerance of 1e-04 ")
    assert remark in remarks


def test_means_of_what_was_normalised_are_rounding_errors(zygote: ZygoteHarness) -> None:
    layers = "nn.Conv2d(3, 24, 3), nn.GroupNorm(8, 24)"
    source = PATTERN.format(layers=layers, outputs="x.mean((1, 2, 3))", shape="16, 3, 64, 64")
    flaws, remarks = seen_of(zygote, source)
    assert flaws.startswith("all outputs are rounding errors: in float64 they vanish")
    assert remarks == ""


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
