"""A run that was interrupted, finished or given more to do goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from archives.attempt import AttemptState
from archives.configuration import with_configuration
from archives.evaluation import Evaluation
from archives.export import canonical_export
from archives.records import RunState
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest
from evokernel.engine import Engine
from problems.errors import ConfigError, StoreError
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import GPU, GpuLandscape


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


def test_human_kernels_are_spread_over_the_islands(tmp_path: Path) -> None:
    config = world.config()
    key = world.problem(1).key
    kernels = [
        (f"kernel{n}", with_configuration(world.PROGRAM, dict.fromkeys(world.NAMES, n)))
        for n in range(1, 5)
    ]
    with world.new_store(tmp_path / "run", config, 1, {key: kernels}) as store:
        world.sit(store, config)
        seeds = [a for a in store.attempts(key, 0) if a.operator == "seed"]
        assert [a.note for a in seeds if a.slot.island == 0] == ["reference", "kernel3"]
        assert {a.slot.island for a in seeds} == {0, 1, 2}


def test_more_generations_go_on_as_if_they_had_been_planned(tmp_path: Path) -> None:
    short, long = world.config("search.generations=2"), world.config("search.generations=5")
    exports = []
    for name, sittings in (("whole", [long]), ("extended", [short, long])):
        with world.new_store(tmp_path / name, sittings[0]) as store:
            for sitting in sittings:
                assert world.sit(store, sitting).state is RunState.FINISHED
            attempts = [
                (a.slot.generation, a.slot.island, a.slot.index, a.operator, a.candidate)
                for a in store.attempts()
            ]
            exports.append(attempts)
    assert exports[0] == exports[1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"uuid": "other", "name": "Other"}, "was measured on Landscape, 1 thread of another mach"),
        ({"threads": 3}, "with 1 threads, here are 3"),
        ({}, "by referee landscape-1, this one is landscape-2"),
    ],
)
def test_a_run_is_not_resumed_where_its_numbers_would_not_compare(
    tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    class Elsewhere(world.Landscape):
        async def start(self) -> Capacity:
            device = replace(world.DEVICE, **changes)  # type: ignore[arg-type]
            version = "landscape-1" if changes else "landscape-2"
            return replace(await super().start(), device=device, referee_version=version)

    config = world.config("search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config)
        before = canonical_export(store)
        elsewhere = Elsewhere()
        with pytest.raises(ConfigError, match=sentence):
            world.sit(store, world.config("search.generations=1"), elsewhere)
        assert elsewhere.is_closed
        assert store.run().state is RunState.FINISHED
        assert canonical_export(store) == before


class OtherGpu(GpuLandscape):
    """A GPU that is not the one on which the run began."""

    def __init__(self, **changes: object) -> None:
        super().__init__()
        self._changes = changes

    async def start(self) -> Capacity:
        device = replace(GPU, uuid="gpu-of-another-machine", **self._changes)  # type: ignore[arg-type]
        return replace(await super().start(), device=device)


def test_a_run_goes_on_with_another_gpu_of_the_same_kind(tmp_path: Path) -> None:
    config = world.config("search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        world.sit(store, config, GpuLandscape())
        again = world.config("search.generations=1")
        assert world.sit(store, again, OtherGpu()).state is RunState.FINISHED
        assert store.counts().evaluations > 0
        for changes, sentence in (
            ({"name": "NVIDIA H100"}, "was measured on NVIDIA H200, this one is NVIDIA H100"),
            (
                {"versions": {"torch": "2.12.0", "driver": "580.1"}},
                "with torch 2.11.0, here is 2.12.0",
            ),
            ({"versions": {"torch": "2.11.0"}}, "with driver 580.1, here is none"),
        ):
            with pytest.raises(ConfigError, match=sentence):
                world.sit(store, world.config("search.generations=2"), OtherGpu(**changes))


def test_a_seed_for_a_solved_problem_is_evaluated_and_one_for_a_skipped_problem_waits(
    tmp_path: Path,
) -> None:
    config = world.config("search.generations=0")
    solved, skipped = (world.problem(number).key for number in (1, 2))
    with world.new_store(tmp_path / "run", config) as store:
        world.sit(store, config)
        store.solve_problem(solved, "at the ceiling")
        store.skip_problem(skipped, "too big")
        for key in (solved, skipped):
            store.request_seed(key, "mine", world.PROGRAM)
        assert world.sit(store, config).state is RunState.FINISHED
        assert [a.note for a in store.attempts(solved, 1) if a.operator == "seed"] == ["mine"]
        assert [seed.problem for seed in store.waiting_seeds()] == [skipped]
