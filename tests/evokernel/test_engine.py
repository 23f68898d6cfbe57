from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from archives.attempt import AttemptState
from archives.configuration import read_configuration, with_configuration
from archives.evaluation import Evaluation, Rung, Status
from archives.export import canonical_export
from archives.records import ProblemStatus, RunState
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.engine import Engine
from evokernel.population import MIGRATE
from evokernel.replay import ReplayEvaluator
from operators.operator import OperatorContext, Parent, Proposal
from problems.errors import EvaluatorError, ProblemError, StoreError
from tests.evokernel import landscape as world


def broken(request: EvaluationRequest) -> Evaluation:
    return Evaluation(status=Status.CRASHED, reason="segfault", rung=Rung.BUILD, cost_s=0.25)


def test_a_run_fills_archives_and_a_migrant_becomes_a_parent(tmp_path: Path) -> None:
    config = world.config()
    with world.new_store(tmp_path / "run", config) as store:
        ending = world.sit(store, config)
        assert ending.state is store.run().state is RunState.FINISHED
        attempts = store.attempts()
        migrants = {a.slot for a in attempts if a.operator == MIGRATE}
        assert migrants & {parent for a in attempts for parent in a.parents}
        for number in (1, 2):
            elites = store.elites(world.problem(number).key)
            assert len({elite.cell for elite in elites}) >= 3
            assert max(elite.speedup for elite in elites) > 1.05
        accepted = {t.operator for t in store.tallies() if t.accepted}
        assert accepted == {"seed", "sketch", "tune", "splice"}
        assert {a.state for a in attempts} <= {AttemptState.ARCHIVED, AttemptState.FAILED}


def test_every_child_lives_where_its_parents_do(tmp_path: Path) -> None:
    config = world.config("search.generations=4")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config)
        for attempt in store.attempts():
            for parent in attempt.parents:
                if attempt.operator == MIGRATE:
                    assert parent.island != attempt.slot.island
                else:
                    assert parent.island == attempt.slot.island
                    assert parent.generation < attempt.slot.generation


def test_a_candidate_is_never_evaluated_twice(tmp_path: Path) -> None:
    config = world.config("search.generations=6", "evaluation.verify=false")
    evaluator = world.Landscape()
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, evaluator)
        asked = [request.candidate.id for request in evaluator.requests]
        assert len(asked) == len(set(asked)) == store.counts().evaluations
        points = [tuple(sorted(p.items())) for r in evaluator.requests for p in r.configurations]
        assert len(points) == len(set(points))


def test_a_duplicate_gets_the_known_verdict(tmp_path: Path) -> None:
    class Stubborn(world.Start):
        async def propose(
            self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
        ) -> Proposal:
            return Proposal(source=world.PROGRAM, note="again")

    config = world.config('operators.use=["sketch"]', "search.generations=1")
    evaluator = world.Landscape()
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=evaluator,
            operators={"seed": world.operators()["seed"], "sketch": Stubborn()},
        )
        asyncio.run(engine.run())
        repeats = [a for a in store.attempts() if a.note == "again"]
        assert len(repeats) > 6
        originals = [a for a in repeats if a.duplicate_of is None]
        assert len(originals) == 1
        assert {a.duplicate_of for a in repeats[1:]} == {originals[0].slot}
        later = [a for a in repeats if a.slot.generation == 1]
        assert {a.result for a in later} == {originals[0].result}


def test_the_winning_configuration_is_written_into_the_elite(tmp_path: Path) -> None:
    config = world.config("search.generations=4", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config)
        key = world.problem(1).key
        tuned = [a for a in store.attempts(key) if a.operator == "tune" and a.result]
        assert any(a.result != a.candidate for a in tuned)
        for elite in store.elites(key):
            source = store.candidate(elite.candidate, key).source
            if "CONFIG" in source:
                point = read_configuration(source)
                assert world.speedup_at(point, 1) == pytest.approx(elite.speedup)


def test_the_search_beats_random_search_on_a_deceptive_landscape(tmp_path: Path) -> None:
    found, drawn = [], []
    for seed in range(20):
        config = world.config(
            "search.islands=2",
            "search.generations=8",
            "search.proposals=3",
            "evaluation.verify=false",
            f"rng_seed={seed}",
        )
        evaluator = world.Landscape()
        with world.new_store(tmp_path / str(seed), config, 1) as store:
            world.sit(store, config, evaluator)
            found.append(world.best_of(store))
        rng = np.random.default_rng(seed)
        drawn.append(world.random_search(evaluator.points, rng, shift=1))
    wins = sum(ours > theirs for ours, theirs in zip(found, drawn, strict=True))
    assert wins >= 15
    assert np.log(found).mean() > np.log(drawn).mean() + 0.2


def test_best_of_n_spends_its_budget_without_parents(tmp_path: Path) -> None:
    config = world.config("search.mode=best-of-n", "search.generations=3")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config)
        attempts = store.attempts()
        assert {a.operator for a in attempts} == {"seed", "sketch"}
        assert not any(a.parents for a in attempts)
        assert len(attempts) == 1 + 3 * (2 + 3 * 2)


def test_replayed_verdicts_give_the_same_archive(tmp_path: Path) -> None:
    config = world.config("search.generations=4", "rng_seed=3")
    with world.new_store(tmp_path / "first", config) as first:
        world.sit(first, config)
        replay = ReplayEvaluator(first)
        with world.new_store(tmp_path / "second", config) as second:
            engine = Engine(
                store=second, config=config, evaluator=replay, operators=world.operators()
            )
            asyncio.run(engine.run())
            assert canonical_export(second) == canonical_export(first)


def test_the_order_of_verdicts_does_not_matter(tmp_path: Path) -> None:
    config = world.config("search.generations=3")
    exports = []
    for in_flight in (1, 64):
        with world.new_store(tmp_path / str(in_flight), config, 3) as store:
            world.sit(store, config, world.Landscape(in_flight=in_flight))
            exports.append(canonical_export(store))
    assert exports[0] == exports[1]


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    exports = []
    for seed in (1, 2):
        config = world.config(f"rng_seed={seed}")
        with world.new_store(tmp_path / str(seed), config, 1) as store:
            world.sit(store, config)
            exports.append([a.note for a in store.attempts()])
    assert exports[0] != exports[1]


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

    config = world.config("search.generations=20", "search.ceiling_share=0.97")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=verdict))
        (state,) = store.problem_states()
        assert state.status is ProblemStatus.SOLVED
        assert "98 %" in state.reason
        assert state.generation == 0


def test_a_problem_without_one_correct_child_ends_too(tmp_path: Path) -> None:
    config = world.config()
    with world.new_store(tmp_path / "run", config, 1) as store:
        assert world.sit(store, config, world.Landscape(verdict=broken)).state is (
            RunState.FINISHED
        )
        assert store.elites(world.problem(1).key) == []


def test_repairing_operators_start_from_failures(tmp_path: Path) -> None:
    class Repair(world.Start):
        name = "repair"
        num_parents = (1, 1)
        from_failures = True

        async def propose(
            self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
        ) -> Proposal:
            assert parents[0].evaluation.status is Status.CRASHED
            return Proposal(source=None, reason="beyond_repair")

    config = world.config('operators.use=["sketch"]')
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(verdict=broken),
            operators={
                "seed": world.operators()["seed"],
                "sketch": world.Start(),
                "repair": Repair(),
            },
        )
        asyncio.run(engine.run())
        assert any(a.operator == "repair" and a.parents for a in store.attempts())


def test_a_stagnating_island_is_restarted_with_the_elites_of_others(tmp_path: Path) -> None:
    config = world.config(
        "search.stagnation=1", "search.migration_interval=0", "search.generations=12"
    )

    def flat(request: EvaluationRequest) -> Evaluation:
        return world.fit(1.5, world.facts_at({"A": 0, "B": 0, "C": 0}))

    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, world.Landscape(verdict=flat))
        # One cell and one objective: nothing can be sent that is not held already, so what is
        # seen of the restarts is that the run goes on with the founders.
        last = [a for a in store.attempts() if a.slot.generation == 12]
        assert any(a.parents for a in last)


def test_a_second_engine_is_refused(tmp_path: Path) -> None:
    config = world.config()
    with world.new_store(tmp_path / "run", config), pytest.raises(StoreError):
        Store.open(tmp_path / "run", write=True)


def test_a_run_killed_at_any_moment_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    script = Path(world.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "20"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[2])},
    )
    assert done.stdout == "20 resumed, 20 the same"


def test_a_cancelled_run_stops_cleanly_and_goes_on_to_the_same_end(tmp_path: Path) -> None:
    config = world.config("search.generations=3")
    with world.new_store(tmp_path / "whole", config) as store:
        world.sit(store, config)
        expected = canonical_export(store)

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if len(evaluator.requests) == 17:
            running[0].cancel()
        return None

    async def interrupted(engine: Engine) -> None:
        running.append(asyncio.ensure_future(engine.run()))
        await running[0]

    evaluator = world.Landscape(verdict=verdict)
    running: list[asyncio.Future[object]] = []
    with world.new_store(tmp_path / "run", config) as store:
        engine = Engine(
            store=store, config=config, evaluator=evaluator, operators=world.operators()
        )
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(interrupted(engine))
        assert evaluator.is_closed
        assert store.run().state is RunState.STOPPED
        world.sit(store, config)
        assert canonical_export(store) == expected


def test_a_live_engine_takes_up_a_seed_at_its_next_generation(tmp_path: Path) -> None:
    kernel = with_configuration(world.PROGRAM, dict.fromkeys(world.NAMES, 5))
    key = world.problem(1).key

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if len(evaluator.requests) == 3:
            with Store.open(tmp_path / "run") as guest:
                guest.request_seed(key, "mine", kernel)
        return None

    evaluator = world.Landscape(verdict=verdict)
    config = world.config()
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, evaluator)
        (taken,) = [a for a in store.attempts(key) if a.operator == "seed" and a.note == "mine"]
        assert taken.slot.generation == 1
        assert taken.state is AttemptState.ARCHIVED
        assert store.waiting_seeds() == []


def test_a_finished_run_evaluates_a_seed_at_once(tmp_path: Path) -> None:
    kernel = with_configuration(world.PROGRAM, dict(zip(world.NAMES, (5, 6, 5, 6, 5), strict=True)))
    config = world.config()
    key = world.problem(1).key
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config)
        before = store.counts()
        store.request_seed(key, "mine", kernel)
        assert world.sit(store, config).state is RunState.FINISHED
        assert store.counts().evaluations == before.evaluations + 1
        assert world.best_of(store) == pytest.approx(4.5, abs=0.5)
        assert store.generation_reached(key) == config.search.generations + 1


def test_human_kernels_are_spread_over_the_islands(tmp_path: Path) -> None:
    config = world.config()
    key = world.problem(1).key
    kernels = [
        (f"kernel{n}", with_configuration(world.PROGRAM, dict.fromkeys(world.NAMES, n)))
        for n in range(1, 5)
    ]
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store,
            config=config,
            evaluator=world.Landscape(),
            operators=world.operators(),
            seeds={key: kernels},
        )
        asyncio.run(engine.run())
        seeds = [a for a in store.attempts(key, 0) if a.operator == "seed"]
        assert [a.note for a in seeds if a.slot.island == 0] == ["reference", "kernel3"]
        assert {a.slot.island for a in seeds} == {0, 1, 2}
