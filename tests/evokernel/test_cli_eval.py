"""`evokernel eval`: its JSON and exit codes, with a referee that says what it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import evaluator.local
from archives.evaluation import DeviceFingerprint, Evaluation, Interval, KernelFacts, Rung, Status
from evaluator.evaluator import Capacity, EvaluationRequest, Purpose
from evokernel.cli.main import build_app
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Scale

CPU = DeviceFingerprint(kind="cpu", name="Test CPU", uuid="c", threads=1, versions={})
EXAMPLES = Path(__file__).parents[2] / "examples"
KERNEL = EXAMPLES / "kernels/level1/88_MinGPTNewGelu.py"
KEYS = [
    "status",
    "reason",
    "rung",
    "speedup",
    "speedup_low",
    "latency_ms",
    "reference_ms",
    "own_kernel_share",
    "log",
]
GOOD = Evaluation(
    status=Status.OK,
    rung=Rung.VERIFY,
    latency_ms=0.5,
    reference_ms=1.0,
    speedup=2.0,
    interval=Interval(low=1.9, high=2.1),
    facts=KernelFacts(own_kernel_share=0.97),
)


class Told:
    """A referee with a fixed answer."""

    answer: Evaluation | Exception = GOOD
    requests: list[EvaluationRequest]

    def __init__(self, *, device: str, rate: bool) -> None:
        assert rate == (device == "cuda"), "a GPU's share of its ceiling is part of a verdict"
        self.device = device
        self.closed = False

    async def start(self) -> Capacity:
        Told.requests = []
        return Capacity(device=CPU, in_flight=1, noise_floor=0.015, memory_bytes=1 << 30)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        Told.requests.append(request)
        if isinstance(Told.answer, Exception):
            raise Told.answer
        return Told.answer

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator.local, "LocalEvaluator", Told)
    monkeypatch.setattr(Told, "answer", GOOD)


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(build_app("eval"), ["eval", *(str(word) for word in words)])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_a_good_kernel_exits_with_0_and_the_promised_keys() -> None:
    code, out, _ = call("--level", 1, "--id", 88, KERNEL, "--json")
    data = json.loads(out)
    assert code == 0
    assert set(KEYS) <= data.keys()
    assert (data["status"], data["rung"], data["speedup_low"]) == ("OK", "verify", 1.9)
    (request,) = Told.requests
    assert request.purpose is Purpose.VERIFY
    assert request.problem.scale is Scale.SMALL
    assert request.candidate.source == KERNEL.read_text()


def test_a_problem_can_be_asked_for_in_half_precision() -> None:
    code, _, _ = call("--level", 1, "--id", 88, KERNEL, "--precision", "bf16")
    assert code == 0
    assert Told.requests[0].problem.precision == "bf16"


def test_a_reference_file_and_a_candidate_file(tmp_path: Path) -> None:
    candidate = tmp_path / "broken.py"
    candidate.write_text("this is not python(")
    code, out, _ = call(EXAMPLES / "my_problem.py", candidate)
    assert code == 0
    assert "0/1 my_problem" in out
    assert Told.requests[0].candidate.source == "this is not python("


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Evaluation(status=Status.WRONG_VALUE, reason="wrong_values", log="worst at [0]"), 1),
        (Evaluation(status=Status.SCREENED, reason="no_model_new"), 1),
        (Evaluation(status=Status.UNSTABLE, reason="noisy_host"), 3),
        (EvaluatorError("the zygote ended"), 3),
        (ProblemError("the reference needs 90 GB, there are 2 GB"), 2),
    ],
)
def test_exit_codes_tell_apart_candidate_user_and_host(
    monkeypatch: pytest.MonkeyPatch, answer: Evaluation | Exception, code: int
) -> None:
    monkeypatch.setattr(Told, "answer", answer)
    found, out, error = call("--level", 1, "--id", 88, KERNEL)
    assert found == code
    if isinstance(answer, Exception):
        assert str(answer) in error
    else:
        assert f"{answer.status.value}, {answer.reason}" in out
        assert answer.log in out


def test_without_a_verdict_the_promised_keys_are_printed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Told, "answer", EvaluatorError("the zygote ended"))
    code, out, error = call("--level", 1, "--id", 88, KERNEL, "--json")
    assert code == 3
    data = json.loads(out)
    assert set(KEYS) <= data.keys()
    assert (data["status"], data["speedup"], data["log"]) == (None, None, "the zygote ended")
    assert data["name"] == "MinGPTNewGelu"
    assert "no verdict: the zygote ended" in error


def test_a_reference_that_raises_is_named_by_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    complaint = "problem 0/1 my_problem fails in step 'open' (raised): ZeroDivisionError"
    monkeypatch.setattr(Told, "answer", ProblemError(complaint))
    file = EXAMPLES / "my_problem.py"
    code, _, error = call(file, KERNEL)
    assert code == 2
    assert error == f"evokernel: {file}: fails in step 'open' (raised): ZeroDivisionError"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([KERNEL], "two files, REFERENCE and CANDIDATE, got 1"),
        (["--level", 1, KERNEL], "expects --level, --id and one file"),
        (["--level", 1, "--id", 88, KERNEL, KERNEL], "expects --level, --id and one file"),
        (["--level", 1, "--id", 999, KERNEL], "has no problem 999"),
        (["--level", 1, "--id", 88, "none.py"], "none.py cannot be read: No such file"),
        (["none.py", KERNEL], "none.py"),
        ([EXAMPLES / "my_problem.py", KERNEL, "--scale", "tiny"], "states its own sizes"),
        ([KERNEL, KERNEL], "Model"),
    ],
)
def test_the_users_mistakes_are_one_sentence(words: list[object], sentence: str) -> None:
    code, _, error = call(*words)
    assert code == 2
    assert sentence in error
    assert error.startswith("evokernel: ")
