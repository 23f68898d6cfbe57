"""KernelBench's rules, for comparison: honest kernels pass them, and so do cheats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluator.compat import KernelBenchVerdict
from evaluator.referee.referee import Referee, new_referee
from evaluator.worker.compat_worker import BASELINE_WARM_UP, TIMINGS, ColdGpu, cold_times_ms
from problems.errors import ProblemError
from tests.evaluator.referee_cases import SOFTMAX, problem_of, source_of
from tests.zoo.entries import cheats, honest, problem

CHEATS = {entry.name: entry.source for entry in cheats()}
HONEST = {entry.name: entry.source for entry in honest()}
COUNTING = f"""{SOFTMAX.source}

class ModelNew(Model):
    calls = 0

    def forward(self, x):
        self.calls += 1
        assert EXPECTED, "call " + str(self.calls)
        return super().forward(x)
"""
"""Softmax, where EXPECTED holds of the number of a call; the trials are the first five."""


def test_an_honest_kernel_passes(referee: Referee) -> None:
    verdict = referee.as_kernelbench(SOFTMAX, source_of("honest/cpp_softmax"))
    assert verdict.correct, verdict.log
    assert (verdict.speedup or 0) > 0


def test_state_steps_with_the_references(referee: Referee) -> None:
    recurrent = problem("recurrent")
    for source in (f"{recurrent.source}\n\nModelNew = Model\n", HONEST["recurrent_cell"]):
        verdict = referee.as_kernelbench(recurrent, source)
        assert verdict.correct, verdict.log
        assert verdict.proves_nothing == ""


def test_what_fails_only_where_it_is_timed_is_wrong(referee: Referee) -> None:
    verdict = referee.as_kernelbench(SOFTMAX, COUNTING.replace("EXPECTED", "self.calls <= 5"))
    assert not verdict.correct
    assert "right in every trial, but it fails where it is timed" in verdict.log
    assert "call 6" in verdict.log


def test_tensors_to_construct_with_have_the_precision_and_integers_their_type(
    referee: Referee,
) -> None:
    source = SOFTMAX.source.replace("return []", "return [torch.ones(2048), torch.arange(2048)]")
    source = source.replace(
        "    def forward(self, x):",
        """    def __init__(self, scale, order):
        super().__init__()
        self.scale, self.order = scale, order

    def forward(self, x):
        x = (x * self.scale)[:, self.order]""",
    )
    half = replace(problem_of(source), precision="fp16")
    candidate = f"""{source}

class ModelNew(Model):
    def forward(self, x):
        assert x.dtype == self.scale.dtype == torch.float16
        return super().forward(x)
"""
    verdict = referee.as_kernelbench(half, candidate)
    assert verdict.correct, verdict.log


class FakeGpu:
    """Writes down what is done to it; the n-th event is recorded at n squared ms."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.num_recorded = 0
        self.actions = ColdGpu(
            wait=lambda: self.done.append("wait"),
            release=lambda: self.done.append("release"),
            overwrite=lambda: self.done.append("overwrite"),
            event=lambda: FakeEvent(self),
        )

    def call(self) -> None:
        self.done.append("call")


class FakeEvent:
    """An event of a `FakeGpu`."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.at_ms = 0

    def record(self) -> None:
        self.gpu.done.append("record")
        self.gpu.num_recorded += 1
        self.at_ms = self.gpu.num_recorded**2

    def elapsed_time(self, end: FakeEvent) -> float:
        assert self.gpu.done[-1] == "wait"
        return end.at_ms - self.at_ms


def test_calls_on_a_gpu_are_timed_cold_and_the_first_is_left_out() -> None:
    gpu = FakeGpu()
    times = cold_times_ms(gpu.call, gpu.actions, BASELINE_WARM_UP)
    timed = ["wait", "overwrite", "record", "call", "record", "wait"]
    assert gpu.done == ["call", "wait"] * BASELINE_WARM_UP + ["release"] + timed * (TIMINGS + 1)
    # From event 2n - 1 to event 2n: 4n - 1 ms.
    assert times == [4 * n - 1 for n in range(2, TIMINGS + 2)]


@pytest.mark.gpu
def test_a_small_problem_on_a_gpu_is_timed_with_gradients_for_the_candidate_alone() -> None:
    """Its tensors are a fraction of the L2 cache."""
    judge = new_referee("cuda")
    try:
        expected = "torch.is_grad_enabled() == (self.calls > 5)"
        verdict = judge.as_kernelbench(SOFTMAX, COUNTING.replace("EXPECTED", expected))
        assert verdict.correct, verdict.log
        for time_ms in (verdict.kernel_ms, verdict.reference_ms):
            assert time_ms is not None
            assert 0 < time_ms == float(f"{time_ms:.3g}")
    finally:
        judge.close()


def test_a_forged_clock_and_zeros_pass_too(referee: Referee) -> None:
    forged = referee.as_kernelbench(SOFTMAX, CHEATS["native_clock"])
    assert forged.correct, forged.log
    # The referee's own rules give neither of them anything: see the zoo.
    assert (forged.speedup or 0) > 1.5
    wide = problem_of(SOFTMAX.source.replace("128, 2048", "16, 32768"))
    zeros = referee.as_kernelbench(wide, CHEATS["zeros"])
    assert zeros.correct
    assert zeros.proves_nothing == "zeros"
    assert forged.proves_nothing == ""


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ("torch.softmax(x, dim=1) * 1e-4", "zeros"),
        ("torch.softmax(x, dim=1) * 1e-4 + 3", "a constant"),
        ("torch.arange(9.0) + 1e-6 * x.sum()", "an answer to other inputs"),
        ("torch.softmax(x, dim=1)", ""),
        ("x.argmax(dim=1)", ""),
    ],
)
def test_what_passes_without_computing_is_named(change: str, passes: str, referee: Referee) -> None:
    small = SOFTMAX.source.replace("128, 2048", "8, 16").replace("torch.softmax(x, dim=1)", change)
    candidate = f"{small}\n\nModelNew = Model\n"
    verdict = referee.as_kernelbench(problem_of(small), candidate)
    assert verdict.correct, verdict.log
    assert verdict.proves_nothing == passes


@pytest.mark.parametrize(
    ("change", "log"),
    [
        (("1 / s", "2 / s"), "trial 0: the largest difference"),
        (("float m = x[0];", "float m = y_typo[0];"), "y_typo"),
        (("return out", "return out[:1]"), "shape"),
        (("out = torch.empty_like(x)", "import os; os._exit(0)"), "its process failed"),
    ],
    ids=["value", "compiler", "shape", "exit"],
)
def test_what_is_wrong_says_why(change: tuple[str, str], log: str, referee: Referee) -> None:
    verdict = referee.as_kernelbench(SOFTMAX, source_of("honest/cpp_softmax").replace(*change))
    assert not verdict.correct
    assert log in verdict.log
    assert verdict.speedup is None


def test_a_broken_problem_is_the_problems_fault(referee: Referee) -> None:
    broken = problem_of(SOFTMAX.source.replace("torch.rand(128, 2048)", "torch.none()"))
    with pytest.raises(ProblemError, match="none"):
        referee.as_kernelbench(broken, source_of("honest/cpp_softmax"))


def test_a_speedup_needs_both_times() -> None:
    assert KernelBenchVerdict(correct=False).speedup is None
    assert KernelBenchVerdict(correct=True, kernel_ms=2.0, reference_ms=3.0).speedup == 1.5
