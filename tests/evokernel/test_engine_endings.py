"""How a run ends: budgets, failures, verification, the ceiling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from archives.attempt import AttemptState
from archives.evaluation import Evaluation, Rung, Status
from archives.records import ProblemStatus, RunState
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.engine import Engine
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from operators.operator import OperatorContext, Parent, Proposal
from problems.errors import EvaluatorError, ProblemError
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import GpuLandscape


def broken(request: EvaluationRequest) -> Evaluation:
    return Evaluation(status=Status.CRASHED, reason="segfault", rung=Rung.BUILD, cost_s=0.25)


def test_evaluations_are_limited_exactly(tmp_path: Path) -> None:
    config = world.config("budget.max_evaluations=11", "search.generations=50")
    evaluator = world.Landscape()
    with world.new_store(tmp_path / "run", config) as store:
        ending = world.sit(store, config, evaluator)
        assert ending.state is RunState.STOPPED
        assert "11 evaluations" in ending.reason
        assert store.counts().evaluations == 11
        searched = [r for r in evaluator.requests if r.purpose is Purpose.SEARCH]
        assert len(searched) == 11


def test_minutes_are_limited_and_the_best_is_still_verified(tmp_path: Path) -> None:
    class Clock:
        now_s = 0.0

        def __call__(self) -> float:
            self.now_s += 0.05
            return self.now_s

    config = world.config("budget.max_minutes=0.5", "search.generations=1000")
    with world.new_store(tmp_path / "run", config) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(),
            operators=world.operators(),
            clock=Clock(),
        )
        ending = asyncio.run(engine.run())
        assert ending.state is RunState.STOPPED
        assert "0.5 minutes" in ending.reason
        assert store.counts().verifications >= 2


def test_a_broken_problem_is_skipped_and_the_others_go_on(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if request.problem.id == 1:
            raise ProblemError("problem 1/1 needs 8 GB and there are 4 GB")
        return None

    config = world.config()
    with world.new_store(tmp_path / "run", config) as store:
        ending = world.sit(store, config, world.Landscape(verdict=verdict))
        assert ending.state is RunState.FINISHED
        assert [label for label, _ in ending.skipped] == ["1/1 Valley1"]
        states = store.problem_states()
        assert states[0].status is ProblemStatus.SKIPPED
        assert "8 GB" in states[0].reason
        assert states[1].generation == config.search.generations
        assert not [a for a in store.attempts() if a.state is AttemptState.PROPOSED]


def test_a_broken_problem_is_skipped_though_the_evaluator_failed_on_it_as_well(
    tmp_path: Path,
) -> None:
    asked: Counter[int] = Counter()

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        asked[request.problem.id] += 1
        if request.problem.id == 1 and asked[1] == 2:
            raise EvaluatorError("found no memory")
        if request.problem.id == 1 and asked[1] > 2:
            raise ProblemError("problem 1/1 needs 8 GB and there are 4 GB")
        return None

    config = world.config()
    with world.new_store(tmp_path / "run", config) as store:
        ending = world.sit(store, config, world.Landscape(verdict=verdict))
        assert [label for label, _ in ending.skipped] == ["1/1 Valley1"]
        reasons = {a.reason for a in store.attempts() if a.state is AttemptState.FAILED}
        assert reasons >= {"evaluator_failed", "problem_skipped"}
        assert store.problem_states()[1].generation == config.search.generations


@pytest.mark.parametrize("purpose", [Purpose.VERIFY, Purpose.SEARCH])
def test_what_was_found_of_a_problem_that_runs_no_more_is_reported(
    purpose: Purpose, tmp_path: Path
) -> None:
    late = world.config().search.generations

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        generation = store.generation_reached(request.problem.key)
        if request.purpose is purpose and generation is not None and generation + 1 >= late:
            raise ProblemError("problem 1/1 finds no memory any more")
        return None

    config = world.config()
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=verdict))
        (line,) = read_report(store).problems
    assert line.best is not None
    assert not line.best.is_reference
    assert line.status == "unverified"
    assert ("finds no memory" in line.reason) == (purpose is Purpose.SEARCH)


def test_one_failure_of_the_evaluator_costs_one_attempt(tmp_path: Path) -> None:
    calls = iter(range(1000))

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if next(calls) == 5:
            raise EvaluatorError("a worker was lost")
        return None

    config = world.config()
    with world.new_store(tmp_path / "run", config) as store:
        assert world.sit(store, config, world.Landscape(verdict=verdict)).state is (
            RunState.FINISHED
        )
        failed = [a for a in store.attempts() if a.reason == "evaluator_failed"]
        assert len(failed) == 1


def test_an_evaluator_that_keeps_failing_ends_the_run(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        raise EvaluatorError("the pool is gone")

    config = world.config("evaluation.failures=3")
    with world.new_store(tmp_path / "run", config) as store:
        evaluator = world.Landscape(verdict=verdict)
        with pytest.raises(EvaluatorError, match=r"3 times in a row.*the pool is gone"):
            world.sit(store, config, evaluator)
        assert store.run().state is RunState.STOPPED
        assert evaluator.is_closed


def test_an_elite_that_fails_its_verification_is_withdrawn_for_the_next(tmp_path: Path) -> None:
    failed: list[str] = []

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if request.purpose is Purpose.VERIFY and not failed:
            failed.append(request.candidate.id)
            return Evaluation(status=Status.WRONG_VALUE, reason="wrong_when_verified")
        return None

    config = world.config("search.generations=6")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=verdict))
        key = world.problem(1).key
        assert store.known(key)[failed[0]].withdrawn == "wrong_when_verified"
        assert failed[0] not in {elite.candidate for elite in store.elites(key)}
        passed = [r for r in store.evaluations(key) if r.purpose == "verify"][-1]
        best = max(store.elites(key), key=lambda elite: elite.objective)
        assert passed.candidate == best.candidate
        assert passed.evaluation.status is Status.OK


def test_a_problem_at_the_ceiling_stops_early(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if not request.configurations and request.purpose is Purpose.SEARCH:
            return None
        return replace(world.Landscape().judge(request), roofline_share=0.98)

    shape = ("search.generations=3", "search.ceiling_share=0.97")
    config = world.config(*shape, "search.stop_at_ceiling=true")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=verdict))
        (state,) = store.problem_states()
        assert state.status is ProblemStatus.SOLVED
        assert "98 %" in state.reason
        assert state.generation == 0
    # By itself a run stops there on a GPU alone, whose ceiling is known from a datasheet.
    config = world.config(*shape)
    with world.new_store(tmp_path / "cpu", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=verdict))
        assert [each.generation for each in store.problem_states()] == [3]
    with world.new_store(tmp_path / "gpu", config, 1) as store:
        world.sit(store, config, GpuLandscape(verdict=verdict))
        (state,) = store.problem_states()
        assert (state.status, state.generation) == (ProblemStatus.SOLVED, 0)


def test_a_run_interrupted_before_it_asked_for_the_ceiling_asks_when_it_goes_on(
    tmp_path: Path,
) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if not request.configurations and request.purpose is Purpose.SEARCH:
            return None
        return replace(world.Landscape().judge(request), roofline_share=0.98)

    shape = ("search.generations=3", "search.ceiling_share=0.97", "search.stop_at_ceiling=true")
    config = world.config(*shape)
    interrupted = world.Landscape(verdict=verdict)

    async def killed(request: EvaluationRequest) -> Evaluation:
        if request.purpose is Purpose.VERIFY:
            raise KeyboardInterrupt
        return await world.Landscape.evaluate(interrupted, request)

    interrupted.evaluate = killed  # type: ignore[method-assign]
    with world.new_store(tmp_path / "run", config, 1) as store:
        with pytest.raises(KeyboardInterrupt):
            world.sit(store, config, interrupted)
        (state,) = store.problem_states()
        assert (state.status, state.generation) == (ProblemStatus.OPEN, 0)
        world.sit(store, config, world.Landscape(verdict=verdict))
        (state,) = store.problem_states()
        assert (state.status, state.generation) == (ProblemStatus.SOLVED, 0)


def test_a_problem_without_one_correct_child_ends_too(tmp_path: Path) -> None:
    config = world.config()
    with world.new_store(tmp_path / "run", config, 1) as store:
        assert world.sit(store, config, world.Landscape(verdict=broken)).state is (
            RunState.FINISHED
        )
        assert store.elites(world.problem(1).key) == []


def test_a_skipped_problem_names_its_file_and_not_its_label(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation:
        raise ProblemError(f"problem {request.problem.label} fails in step 'open': ZeroDivision")

    config = world.config("problems.file=/home/me/mine.py")
    with world.new_store(tmp_path / "run", config, 1) as store:
        ending = world.sit(store, config, world.Landscape(verdict=verdict))
    assert ending.skipped == (
        ("1/1 Valley1", "/home/me/mine.py: fails in step 'open': ZeroDivision"),
    )


class Repair:
    """Starts from failures, and takes note of which."""

    name = "repair"
    num_parents = (1, 1)
    from_failures = True

    def __init__(self) -> None:
        self.parents: list[Parent] = []

    def applies(self, context: OperatorContext) -> bool:
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        self.parents += parents
        return Proposal(source=None, reason="nothing_to_change")


@pytest.mark.parametrize("status", [Status.IMPOSSIBLE, Status.CRASHED])
def test_an_impossible_time_is_shown_and_nothing_starts_from_it(
    status: Status, tmp_path: Path
) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if not request.configurations:
            return None  # The reference; else nothing would be left to search.
        return Evaluation(status=status, reason="faster_than_memory", log="0.01 ms")

    config = world.config("search.generations=3")
    repair = Repair()
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(verdict=verdict),
            operators={**world.operators(), "repair": repair},
        )
        asyncio.run(engine.run())
        report = read_report(store)
    failed = {parent.evaluation.status for parent in repair.parents}
    if status is Status.IMPOSSIBLE:
        assert failed == set()
        assert report.counts.impossible > 0
        assert report_to_json(report)["num_impossible"] == report.counts.impossible
    else:
        assert failed == {Status.CRASHED}
        assert report.counts.impossible == 0
    assert report.problems[0].status == "reference"
