"""`--compat kernelbench`: what `eval` and `report` say by others' rules, with a referee of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import evaluator.referee.referee
from evaluator.compat import KernelBenchVerdict
from evokernel.cli.main import build_app
from problems.problem import Problem

KERNEL = Path(__file__).parents[2] / "examples/kernels/level1/88_MinGPTNewGelu.py"
RIGHT = KernelBenchVerdict(correct=True, kernel_ms=2.0, reference_ms=3.0)
WRONG = KernelBenchVerdict(correct=False, log="trial 0: the largest difference is 1")


class Told:
    """A referee with a fixed answer."""

    answer = RIGHT
    asked: list[tuple[str, str]]
    is_closed: bool

    def __init__(self, device: str) -> None:
        assert device == "cpu"
        Told.asked, Told.is_closed = [], False

    def start(self) -> None:
        pass

    def as_kernelbench(self, problem: Problem, source: str) -> KernelBenchVerdict:
        Told.asked.append((problem.label, source))
        return Told.answer

    def close(self) -> None:
        Told.is_closed = True


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator.referee.referee, "new_referee", Told)
    monkeypatch.setattr(Told, "answer", RIGHT)


def call(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(build_app(str(words[0])), [str(word) for word in words])
    assert result.exit_code == code, result.output
    assert Told.is_closed
    return result.stdout


def as_json(*words: object, code: int = 0) -> Any:  # noqa: ANN401 - JSON
    return json.loads(call(*words, "--json", code=code))


def test_eval_tells_what_kernelbench_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("eval", "--level", 1, "--id", 88, KERNEL, "--compat", "kernelbench")
    told = as_json(*words)
    assert (told["rules"], told["correct"], told["speedup"]) == ("kernelbench", True, 1.5)
    assert Told.asked[0][1] == KERNEL.read_text()
    assert "1.50x" in call(*words)
    monkeypatch.setattr(Told, "answer", WRONG)
    assert as_json(*words, code=1)["log"] == WRONG.log
    assert WRONG.log in call(*words, code=1)


def test_a_report_adds_it_and_changes_nothing_else(small_run: Path) -> None:
    alone = json.loads(
        CliRunner().invoke(build_app("report"), ["report", str(small_run), "--json"]).stdout
    )
    both = as_json("report", small_run, "--compat", "kernelbench")
    compared = both.pop("kernelbench")
    assert both == alone
    judged = {line["id"]: line["correct"] for line in compared["problems"]}
    # Problem 4 has no correct candidate, problem 5 was skipped.
    assert judged == {1: True, 2: True, 3: True, 4: False, 5: False, 6: judged[6], 7: True}
    right = sum(judged.values())
    assert compared["fast_p"]["1.0"] == pytest.approx(right / 7)
    assert compared["fast_p"]["1.5"] == 0.0
    assert len(Told.asked) == right
    text = call("report", small_run, "--compat", "kernelbench")
    assert "By KernelBench's rules, for comparison only" in text
    assert compared["num_proving_nothing"] == 0
    assert "prove nothing" not in text


def test_problems_that_prove_nothing_by_these_rules_are_counted_apart(
    small_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Told, "answer", replace(RIGHT, proves_nothing="zeros"))
    compared = as_json("report", small_run, "--compat", "kernelbench")["kernelbench"]
    judged = [line for line in compared["problems"] if line["correct"]]
    assert {line["proves_nothing"] for line in judged} == {"zeros"}
    assert compared["num_proving_nothing"] == len(judged)
    assert compared["fast_p"]["1.0"] == pytest.approx(len(judged) / 7)
    assert compared["fast_p_without_these"]["1.0"] == 0.0
    text = call("report", small_run, "--compat", "kernelbench")
    assert "zeros" in text
    assert f"{len(judged)} prove nothing by these rules" in " ".join(text.split())
