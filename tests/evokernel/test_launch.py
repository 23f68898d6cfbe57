from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from archives.records import RunState
from archives.store import Store
from evokernel.config import resolve
from evokernel.launch import create_run, default_folder, load_operators, make_plan, reopen, sit
from problems.errors import ConfigError, OperatorError, ProblemError, StoreError
from tests.evokernel import landscape as world


def test_a_plan_counts_what_a_run_costs_at_most() -> None:
    config = resolve(preset="demo", flags={"problems.level": 1, "problems.ids": "1,19-20"})
    plan = make_plan(config)
    assert [problem.id for problem in plan.problems] == [1, 19, 20]
    assert plan.scale == "small"
    assert plan.num_attempts == plan.num_evaluations == 3 * (1 + 3 * (2 + 2 * 2))
    assert plan.num_bytes > 0


def test_a_plan_is_limited_by_the_budget() -> None:
    flags = {"problems.level": 1, "budget.max_evaluations": 10}
    assert make_plan(resolve(flags=flags)).num_evaluations == 10


@pytest.mark.parametrize(
    ("flags", "error", "sentence"),
    [
        ({}, ConfigError, "name a level with --level 1"),
        ({"problems.level": 1, "problems.device": "cuda"}, ConfigError, "CPU only"),
        ({"problems.level": 2}, ProblemError, "level 1 only"),
        ({"problems.level": 1, "problems.ids": "101"}, ProblemError, "no problem 101"),
        ({"problems.level": 1, "problems.ids": "x"}, ConfigError, "cannot read 'x'"),
        ({"problems.level": 1, "problems.seeds": "/nowhere"}, OperatorError, "no folder"),
        ({"problems.level": 1, "problems.file": "a.py"}, ConfigError, "run of its own"),
        ({"problems.level": 1, "operators.use": ["tun"]}, OperatorError, "did you mean 'tune'"),
        ({"problems.level": 1, "archive.axes": ["size"]}, ConfigError, "'size' is unknown"),
        (
            {"problems.level": 1, "operators.settings.tuen.configurations": 3},
            ConfigError,
            "did you mean 'tune'",
        ),
        (
            {"problems.level": 1, "problems.source": "x", "problems.scale": "tiny"},
            ConfigError,
            "--scale is for bundled problems",
        ),
    ],
)
def test_what_cannot_run_is_said_before_anything_starts(
    flags: dict[str, object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        make_plan(resolve(flags=flags))


def test_seed_is_always_among_the_operators() -> None:
    assert set(load_operators(resolve(settings=['operators.use=["tune"]']))) == {"seed", "tune"}


def test_a_folder_is_named_after_the_time_and_never_taken_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    now = datetime(2026, 5, 4, 3, 2, 1)
    first = default_folder(now)
    assert first == Path("runs/20260504-030201")
    first.mkdir(parents=True)
    assert default_folder(now) == Path("runs/20260504-030201-2")


def test_a_run_stores_its_resolved_configuration_and_is_reopened_with_it(tmp_path: Path) -> None:
    config = resolve(
        preset="demo",
        settings=["search.islands=2", "search.generations=0"],
        flags={"problems.level": 1, "problems.ids": "19", "problems.scale": "tiny"},
    )
    plan = make_plan(config)
    with create_run(plan, tmp_path / "run") as store:
        sit(store, plan, evaluator=world.Landscape())
    with pytest.raises(StoreError):
        create_run(plan, tmp_path / "run")
    store, again = reopen(tmp_path / "run")
    with store:
        assert again.config == config
        assert again.problems == plan.problems
        assert store.run().state is RunState.FINISHED


def test_a_run_killed_before_its_problems_were_written_is_reopened_whole(tmp_path: Path) -> None:
    config = resolve(flags={"problems.level": 1, "problems.ids": "19"})
    with world.new_store(tmp_path / "run", config, 0):
        pass
    store, plan = reopen(tmp_path / "run")
    with store:
        assert [problem.id for problem in plan.problems] == [19]
        assert store.problems() == list(plan.problems)


def test_reopening_a_run_that_an_engine_holds_is_refused(tmp_path: Path) -> None:
    config = resolve(flags={"problems.level": 1, "problems.ids": "19"})
    with create_run(make_plan(config), tmp_path / "run"), pytest.raises(StoreError):
        reopen(tmp_path / "run")
    with pytest.raises(StoreError):
        reopen(tmp_path / "nothing")


def test_a_configuration_of_another_version_is_one_sentence(tmp_path: Path) -> None:
    with world.new_store(tmp_path / "run", resolve(), 1) as store:
        run = store.run()
    strange = replace(run, config_json='{"search": {"continents": 3}}')
    with Store.create(tmp_path / "other", strange):
        pass
    with pytest.raises(ConfigError, match="this version"):
        reopen(tmp_path / "other")
