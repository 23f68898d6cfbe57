"""The search itself: who is bred, judged and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from archives.attempt import AttemptState
from archives.configuration import read_configuration
from archives.evaluation import Evaluation, Rung, Status
from archives.export import canonical_export
from archives.records import RunState
from evaluator.evaluator import EvaluationRequest
from evokernel.engine import Engine
from evokernel.population import MIGRATE
from evokernel.replay import ReplayEvaluator
from operators.operator import OperatorContext, Parent, Proposal
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
            assert max(elite.objective_speedup for elite in elites) > 1.05
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
                assert world.speedup_at(point, 1) == pytest.approx(elite.objective_speedup)


def test_the_search_beats_random_search_on_a_deceptive_landscape(tmp_path: Path) -> None:
    found, drawn = [], []
    for seed in range(20):
        config = world.config(
            "search.islands=2",
            "search.generations=5",
            "search.proposals=2",
            "operators.settings.tune.configurations=8",
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


def test_a_search_without_an_archive_breeds_from_the_best_and_can_be_resumed(
    tmp_path: Path,
) -> None:
    settings = (
        'archive.axes=["none"]',
        "archive.pool=3",
        "search.migration_interval=0",
        "search.stagnation=9",
        "evaluation.verify=false",
    )
    config = world.config(*settings, "search.generations=3")
    with world.new_store(tmp_path / "whole", config, count=1) as store:
        world.sit(store, config)
        expected = canonical_export(store)
        assert {elite.cell for elite in store.elites(world.problem(1).key)} == {(0,)}
        attempts = [one for one in store.attempts() if one.operator != "seed"]
        speedups = {record.slot: record.evaluation.speedup or 0.0 for record in store.evaluations()}
    bred = [one for one in attempts if one.parents]
    assert {one.operator for one in bred} == {"tune", "splice"}
    for child in bred:
        older = [
            speedups.get(one.slot, 0.0)
            for one in attempts
            if one.slot.island == child.slot.island and one.slot.generation < child.slot.generation
        ]
        assert speedups[child.parents[0]] == max(older)
    part = world.config(*settings, "search.generations=1")
    with world.new_store(tmp_path / "run", part, count=1) as store:
        world.sit(store, part)
        store.set_config(config.model_dump_json())
        world.sit(store, config)
        assert canonical_export(store) == expected


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
