"""KernelBench's rules, for comparison: honest kernels pass them, and so do cheats."""

from __future__ import annotations

import pytest

from evaluator.compat import KernelBenchVerdict
from evaluator.referee.referee import Referee
from problems.errors import ProblemError
from tests.evaluator.referee_cases import SOFTMAX, problem_of, source_of
from tests.zoo.entries import cheats

CHEATS = {entry.name: entry.source for entry in cheats()}


def test_an_honest_kernel_passes(referee: Referee) -> None:
    verdict = referee.as_kernelbench(SOFTMAX, source_of("honest/cpp_softmax"))
    assert verdict.correct, verdict.log
    assert (verdict.speedup or 0) > 0


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
