"""compute-sanitizer as a step of verification: who reads out of bounds goes, races are shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tests.evokernel.landscape as world
from archives.evaluation import Evaluation, Status
from archives.store import Store
from evaluator.sanitizing import CHECKS, MEMCHECK, RACECHECK, Sanitized
from evokernel.cli import verify as command
from evokernel.cli.main import build_app
from evokernel.rechecking import MEMCHECK_ERRORS, Finding, Outcome, recheck
from evokernel.sanitizing import Sanitizer, find_tool
from problems.errors import ConfigError, EvaluatorError
from problems.problem import Problem
from tests.evokernel.gpu_landscape import GPU, GpuLandscape

Answer = Callable[[str, str], int | None]
"""Errors that a check finds in a source; None: it does not run."""


class Looking(GpuLandscape):
    """A GPU on which compute-sanitizer is installed."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer
        self.looked: list[tuple[str, str]] = []

    async def sanitize(self, problem: Problem, source: str, tool: Path, check: str) -> Sanitized:
        self.looked.append((source, check))
        errors = self.answer(source, check)
        log = "it did not run" if errors is None else "Invalid __global__ read\n" * bool(errors)
        return Sanitized(check=check, errors=errors, log=log)

    @property
    def candidates(self) -> list[str]:
        """Texts that were looked at, without the reference's."""
        return [source for source, _ in self.looked if "ModelNew = Model" not in source]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run on a GPU of which nothing was verified."""
    config = world.config("search.generations=3", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, count=1) as store:
        world.sit(store, config, GpuLandscape())
    return tmp_path / "run"


def elites(run: Path) -> dict[str, str]:
    """Texts of the elites, by id."""
    key = world.problem(1).key
    with Store.open(run) as store:
        held = {elite.candidate for elite in store.elites(key)}
        return {one: store.candidate(one, key).source for one in held}


def again(run: Path, evaluator: Looking) -> list[Finding]:
    sanitizer = Sanitizer(evaluator, Path("compute-sanitizer"))
    with Store.open(run, write=True) as store:
        return asyncio.run(recheck(store, evaluator, sanitizer=sanitizer))[0]


def test_who_reads_out_of_bounds_is_withdrawn(run: Path) -> None:
    held = elites(run)
    doomed = max(held)

    def answer(source: str, check: str) -> int:
        return 3 if check == MEMCHECK and source == held[doomed] else 0

    evaluator = Looking(answer)
    found = {finding.candidate: finding for finding in again(run, evaluator)}
    assert found[doomed].outcome is Outcome.WITHDRAWN
    after = found[doomed].after
    assert after is not None
    assert (after.status, after.reason) == (Status.RUNTIME_ERROR, MEMCHECK_ERRORS)
    assert "3 accesses out of bounds" in after.log
    assert "Invalid __global__ read" in after.log
    assert doomed not in elites(run)
    assert set(elites(run)) <= found.keys(), "whoever moved up was looked at too"
    with Store.open(run) as store:
        assert store.known(world.problem(1).key)[doomed].withdrawn == MEMCHECK_ERRORS
        known = store.evaluation(world.problem(1).key, doomed)
    assert known is not None
    assert known.reason == MEMCHECK_ERRORS


def test_races_are_told_and_cost_nothing(run: Path) -> None:
    held = elites(run)
    findings = again(run, Looking(lambda source, check: int(check == RACECHECK)))
    assert elites(run) == held
    assert {finding.outcome for finding in findings} <= {Outcome.FIRST, Outcome.CONFIRMED}
    assert {(one.check, one.errors) for f in findings for one in f.sanitized} == {
        (MEMCHECK, 0),
        (RACECHECK, 1),
    }


def test_a_check_that_comes_to_no_end_decides_nothing(run: Path) -> None:
    held = elites(run)
    again(run, Looking(lambda source, check: 0 if "ModelNew = Model" in source else None))
    assert elites(run) == held


@pytest.mark.parametrize("errors", [None, 5], ids=["fails", "finds"])
def test_a_tool_that_fails_on_the_reference_is_not_believed(run: Path, errors: int | None) -> None:
    held = elites(run)
    evaluator = Looking(lambda source, check: errors)
    with pytest.raises(ConfigError, match="does not work here"):
        again(run, evaluator)
    assert evaluator.requests == [], "nothing is verified before the tool is known to work"
    assert elites(run) == held
    assert evaluator.is_closed


def test_the_tool_itself_is_looked_at_once(run: Path) -> None:
    evaluator = Looking(lambda source, check: 0)
    findings = again(run, evaluator)
    assert len(evaluator.looked) == 1 + len(CHECKS) * len(findings)
    trial, check = evaluator.looked[0]
    assert (check, "relu" in trial) == (MEMCHECK, True)


def test_a_process_that_does_not_start_costs_no_verdict(run: Path) -> None:
    def answer(source: str, check: str) -> int:
        if "ModelNew = Model" not in source:
            raise EvaluatorError("no room for another process")
        return 0

    findings = again(run, Looking(answer))
    assert findings
    assert all(finding.after is not None for finding in findings)
    assert {one.log for f in findings for one in f.sanitized} == {"no room for another process"}


def test_what_fails_anyway_is_not_looked_at(run: Path) -> None:
    evaluator = Looking(lambda source, check: 0)
    evaluator.verdict = lambda request: Evaluation(status=Status.WRONG_VALUE, reason="wrong_value")
    again(run, evaluator)
    assert evaluator.candidates == []


def test_the_command_tells_what_was_found(
    run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    evaluator = Looking(lambda source, check: int(check == RACECHECK))
    monkeypatch.setattr(command, "evaluator_of", lambda run: evaluator)
    arguments = ["verify", str(run), "--sanitize"]
    result = CliRunner().invoke(build_app("verify"), [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)["elites"]
    assert told[0]["sanitizer"] == [
        {"check": MEMCHECK, "errors": 0, "log": ""},
        {"check": RACECHECK, "errors": 1, "log": "Invalid __global__ read\n"},
    ]
    shown = CliRunner().invoke(build_app("verify"), arguments)
    assert "racecheck: 1 found\nInvalid __global__ read" in shown.stdout


def test_without_the_tool_nothing_is_verified(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.sanitizing.PLACES", ("/nonexistent",))
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    evaluator = Looking(lambda source, check: 0)
    monkeypatch.setattr(command, "evaluator_of", lambda run: evaluator)
    result = CliRunner().invoke(build_app("verify"), ["verify", str(run), "--sanitize"])
    assert result.exit_code == 2
    assert "compute-sanitizer is neither on the PATH" in " ".join(result.output.split())
    assert evaluator.requests == []


def test_a_cpu_has_nothing_to_be_looked_at() -> None:
    with pytest.raises(ConfigError, match="GPU"):
        find_tool(world.DEVICE)
    with pytest.raises(ConfigError, match="GPU"):
        find_tool(None)
    assert GPU.kind == "cuda"
