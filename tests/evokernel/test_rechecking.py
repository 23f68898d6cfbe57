"""Verifying a run again: what holds stays, what fails goes, and its successors are verified too."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tests.evokernel.landscape as world
from archives.evaluation import Evaluation, Status
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Purpose
from evokernel.cli import verify as command
from evokernel.cli.main import build_app
from evokernel.rechecking import Finding, Outcome, recheck
from problems.errors import ConfigError, EvaluatorError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run of which nothing was verified."""
    config = world.config("search.generations=3", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, count=1) as store:
        world.sit(store, config)
    return tmp_path / "run"


def again(run: Path, evaluator: world.Landscape) -> list[Finding]:
    with Store.open(run, write=True) as store:
        return asyncio.run(recheck(store, evaluator))[0]


def elites(run: Path) -> set[str]:
    with Store.open(run) as store:
        return {elite.candidate for elite in store.elites(world.problem(1).key)}


def test_every_elite_gets_the_number_of_its_latest_verification(run: Path) -> None:
    held = elites(run)
    first = again(run, world.Landscape())
    assert {finding.candidate for finding in first} == held
    # The made-up evaluator verifies the reference itself with no more certainty than before.
    assert Outcome.FIRST in {finding.outcome for finding in first}
    assert {finding.outcome for finding in first} <= {Outcome.FIRST, Outcome.CONFIRMED}

    def slower(request: EvaluationRequest) -> Evaluation:
        verdict = world.Landscape().judge(request)
        assert verdict.speedup is not None
        return replace(world.fit(verdict.speedup / 2, verdict.facts, verdict.rung))

    second = again(run, world.Landscape(verdict=slower))
    assert {finding.outcome for finding in second} == {Outcome.SLOWER}
    assert elites(run) == held
    with Store.open(run) as store:
        for finding in second:
            known = store.evaluation(finding.problem.key, finding.candidate)
            assert known is not None
            assert finding.before is not None
            assert known.speedup == pytest.approx((finding.before.speedup or 0) / 2)
    assert {finding.outcome for finding in again(run, world.Landscape(verdict=slower))} == {
        Outcome.CONFIRMED
    }


def test_what_fails_is_withdrawn_and_who_moves_up_is_verified(run: Path) -> None:
    held = elites(run)
    doomed = max(held)

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        assert request.purpose is Purpose.VERIFY
        if request.candidate.id != doomed:
            return None
        return Evaluation(status=Status.WRONG_VALUE, reason="wrong_value", log="wrong")

    findings = {f.candidate: f for f in again(run, world.Landscape(verdict=verdict))}
    assert findings[doomed].outcome is Outcome.WITHDRAWN
    now = elites(run)
    assert doomed not in now
    assert now <= findings.keys(), "whoever moved up was verified too"
    with Store.open(run) as store:
        assert doomed not in store.speedups(world.problem(1).key)


def test_a_busy_host_or_a_broken_evaluator_changes_nothing(run: Path) -> None:
    again(run, world.Landscape())
    held = elites(run)

    def busy(request: EvaluationRequest) -> Evaluation:
        if request.candidate.id == max(held):
            raise EvaluatorError("it broke")
        return Evaluation(status=Status.UNSTABLE, reason="host_noisy", log="busy")

    findings = again(run, world.Landscape(verdict=busy))
    assert {finding.outcome for finding in findings} == {Outcome.UNSURE}
    assert elites(run) == held
    with Store.open(run) as store:
        speedups = store.speedups(world.problem(1).key)
    assert held <= speedups.keys()


def test_a_problem_that_does_not_run_is_named_and_keeps_its_elites(run: Path) -> None:
    held = elites(run)
    evaluator = world.Landscape(verdict=world.broken_problem("no such module"))
    with Store.open(run, write=True) as store:
        findings, unable = asyncio.run(recheck(store, evaluator))
    assert findings == []
    assert [(problem.id, reason) for problem, reason in unable] == [(1, "no such module")]
    assert elites(run) == held


def test_another_device_is_refused(run: Path) -> None:
    class Elsewhere(world.Landscape):
        async def start(self) -> Capacity:
            here = await super().start()
            return replace(here, device=replace(here.device, name="Another"))

    elsewhere = Elsewhere()
    with Store.open(run, write=True) as store, pytest.raises(ConfigError, match="Another"):
        asyncio.run(recheck(store, elsewhere))
    assert elsewhere.is_closed


def test_another_version_of_the_referee_is_refused(run: Path) -> None:
    class Newer(world.Landscape):
        async def start(self) -> Capacity:
            return replace(await super().start(), referee_version="landscape-2")

    newer = Newer()
    with Store.open(run, write=True) as store, pytest.raises(ConfigError, match="landscape-2"):
        asyncio.run(recheck(store, newer))
    assert not newer.requests


def test_the_command_reports_and_tells_by_its_exit_code(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "evaluator_of", lambda run: world.Landscape())
    result = CliRunner().invoke(build_app("verify"), ["verify", str(run), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert {elite["outcome"] for elite in told["elites"]} <= {"first", "confirmed"}
    assert {elite["candidate"] for elite in told["elites"]} == elites(run)
    assert told["not_run"] == []

    def wrong(request: EvaluationRequest) -> Evaluation:
        return Evaluation(status=Status.WRONG_VALUE, reason="wrong_value", log="wrong")

    monkeypatch.setattr(command, "evaluator_of", lambda run: world.Landscape(verdict=wrong))
    result = CliRunner().invoke(build_app("verify"), ["verify", str(run), "--id", "1"])
    assert result.exit_code == 1, result.output
    assert "wrong_value" in result.stdout
    assert elites(run) == set()
