from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from archives.records import RunState
from archives.store import Store
from evaluator.evaluator import Capacity
from evokernel.config import RunConfig, preset_names, resolve
from evokernel.devices import default_scale, device_kind
from evokernel.launch import create_run, default_folder, load_operators, make_plan, reopen, sit
from problems.errors import ConfigError, OperatorError, ProblemError, StoreError
from problems.problem import Scale
from tests.evokernel import landscape as world


def test_a_plan_counts_what_a_run_costs_at_most() -> None:
    shape = ["islands=3", "initial=2", "generations=2", "proposals=2"]
    config = resolve(
        settings=[f"search.{text}" for text in shape],
        flags={"problems.level": 1, "problems.ids": "1,19-20"},
    )
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
        ({"problems.level": 1, "problems.device": "cuda"}, ConfigError, "no NVIDIA GPU was found"),
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
        (
            {"problems.file": "x.py", "problems.scale": "tiny"},
            ConfigError,
            "--scale is for bundled problems: a problem file states its own sizes",
        ),
        (
            {"problems.level": 1, "operators.settings.sketch.configs": 3},
            ConfigError,
            "unknown setting 'operators.settings.sketch.configs': did you mean 'configurations'",
        ),
        (
            {"problems.level": 1, "operators.settings.tune.configurations": "foo"},
            ConfigError,
            "'foo' is wrong: expected a whole number from 1 to 64",
        ),
        (
            {"problems.level": 1, "operators.settings.tune.configurations": True},
            ConfigError,
            "expected a whole number",
        ),
        (
            {"problems.level": 1, "operators.settings.splice.configurations": 0},
            ConfigError,
            "is out of range: expected at least 1, the nearest is 1",
        ),
        (
            {"problems.level": 1, "operators.settings.seed.speed": 1},
            ConfigError,
            "unknown setting 'operators.settings.seed.speed': it has none",
        ),
        ({"problems.level": 1, "problems.from_run": "/nowhere"}, StoreError, "/nowhere"),
        ({"problems.level": 1, "archive.axes": ["bytes"]}, ConfigError, "'bytes' is unknown"),
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


def small(*settings: str, **problems: object) -> RunConfig:
    flags = {f"problems.{name}": value for name, value in problems.items()}
    return resolve(
        settings=[*world.SHAPE, "search.generations=0", *settings],
        flags={"problems.level": 1, "problems.ids": "19", "problems.scale": "tiny", **flags},
    )


def test_kernels_are_kept_in_the_run_and_the_folder_they_came_from_is_not_needed(
    tmp_path: Path,
) -> None:
    kernel = "class ModelNew:\n    def forward(self, x):\n        return x\n"
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "19_relu.py").write_text(kernel)
    plan = make_plan(small(seeds=str(folder)))
    with create_run(plan, tmp_path / "run"):
        pass
    (folder / "19_relu.py").unlink()
    folder.rmdir()
    store, again = reopen(tmp_path / "run")
    with store:
        sit(store, again, evaluator=world.Landscape())
        seeds = [a.note for a in store.attempts(generation=0) if a.operator == "seed"]
    assert seeds == ["reference", "19_relu"]


def test_the_elites_of_another_run_are_kernels_to_start_from(tmp_path: Path) -> None:
    operators = 'operators.use=["tests.evokernel.landscape:START", "tune"]'
    first = make_plan(small(operators, "search.generations=3"))
    with create_run(first, tmp_path / "first") as store:
        sit(store, first, evaluator=world.Landscape())
        key = first.problems[0].key
        best = max(store.elites(key), key=lambda elite: elite.objective)
        num_elites = len({elite.candidate for elite in store.elites(key)})
    second = make_plan(small(operators, from_run=str(tmp_path / "first")))
    kernels = second.seeds[key]
    assert len(kernels) == num_elites - 1, "the reference is a fallback, not a kernel"
    assert kernels[0][0] == f"first {best.candidate[:12]}"
    with create_run(second, tmp_path / "second") as store:
        shutil.rmtree(tmp_path / "first")
        sit(store, second, evaluator=world.Landscape())
        seeds = [a for a in store.attempts(key, 0) if a.operator == "seed"]
        assert sorted(a.note for a in seeds) == sorted(["reference", *(n for n, _ in kernels)])
        assert best.candidate in {elite.candidate for elite in store.elites(key)}


def test_a_run_without_a_common_problem_is_no_start(tmp_path: Path) -> None:
    with create_run(make_plan(small()), tmp_path / "first"):
        pass
    with pytest.raises(ConfigError, match=r"shares no problem with this run.*its scale is tiny"):
        make_plan(small(from_run=str(tmp_path / "first"), scale="small"))
    plan = make_plan(small(from_run=str(tmp_path / "first")))
    assert "has no elite with a kernel of its own" in plan.complaints[0]


def test_what_won_on_like_problems_is_no_start_where_nothing_is_transferred(
    tmp_path: Path,
) -> None:
    operators = 'operators.use=["tests.evokernel.landscape:START", "tune"]'
    first = make_plan(small(operators, "search.generations=3"))
    with create_run(first, tmp_path / "first") as store:
        sit(store, first, evaluator=world.Landscape())
    other = {"from_run": str(tmp_path / "first"), "scale": "small"}
    assert make_plan(small(operators, **other)).heirlooms
    with pytest.raises(ConfigError, match=r"shares no problem.*of use only to an evolution"):
        make_plan(small(operators, "search.mode=best-of-n", **other))


def test_a_run_killed_while_it_is_made_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path, heirlooms: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evokernel.launch.write_heirlooms", killed)
    with pytest.raises(KeyboardInterrupt):
        create_run(make_plan(small()), tmp_path / "run")
    with pytest.raises(StoreError):
        reopen(tmp_path / "run")


def test_a_finished_run_is_reopened_without_an_evaluator(tmp_path: Path) -> None:
    class Absent(world.Landscape):
        async def start(self) -> Capacity:
            raise AssertionError("nothing is to be measured")

    plan = make_plan(small())
    with create_run(plan, tmp_path / "run") as store:
        sit(store, plan, evaluator=world.Landscape())
    store, plan = reopen(tmp_path / "run")
    with store:
        assert sit(store, plan, evaluator=Absent()).state is RunState.FINISHED
        store.request_seed(plan.problems[0].key, "mine", world.PROGRAM)
        with pytest.raises(AssertionError, match="nothing is to be measured"):
            sit(store, plan, evaluator=Absent())


def test_a_spent_budget_is_raised_and_stored(tmp_path: Path) -> None:
    operators = 'operators.use=["tests.evokernel.landscape:START", "tune"]'
    plan = make_plan(small(operators, "budget.max_evaluations=3", "search.generations=1"))
    with create_run(plan, tmp_path / "run") as store:
        assert sit(store, plan, evaluator=world.Landscape()).state is RunState.STOPPED
    changes = {"budget.max_evaluations": 1000, "search.generations": 2, "budget.max_minutes": None}
    store, plan = reopen(tmp_path / "run", changes)
    with store:
        assert sit(store, plan, evaluator=world.Landscape()).state is RunState.FINISHED
        assert store.generation_reached(plan.problems[0].key) == 2
    store, plan = reopen(tmp_path / "run")
    with store:
        assert plan.config.budget.max_evaluations == 1000
        assert plan.config.search.generations == 2
    with pytest.raises(ConfigError, match=r"from command line.*at least 1"):
        reopen(tmp_path / "run", {"budget.max_evaluations": 0})


def test_the_scale_follows_the_kind_of_device() -> None:
    assert default_scale("cuda") is Scale.OFFICIAL
    assert default_scale(device_kind("auto")) is Scale.SMALL
    assert make_plan(resolve(flags={"problems.level": 1})).device_words == "the CPU"


def test_the_precision_is_one_of_the_run_and_makes_other_problems_of_the_same(
    tmp_path: Path,
) -> None:
    level = {"problems.level": 1, "problems.ids": "19", "problems.scale": "tiny"}
    (full,) = make_plan(resolve(flags=level)).problems
    (half,) = make_plan(resolve(flags={**level, "problems.precision": "bf16"})).problems
    assert (full.precision, half.precision) == ("fp32", "bf16")
    assert full.key != half.key
    (tmp_path / "mine.py").write_text(half.source)
    own = {"problems.file": str(tmp_path / "mine.py"), "problems.precision": "fp16"}
    assert [one.precision for one in make_plan(resolve(flags=own)).problems] == ["fp16"]
    with pytest.raises(ConfigError, match="precision"):
        resolve(flags={**level, "problems.precision": "fp8"})


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_names_operators_and_settings_that_there_are(name: str) -> None:
    config = resolve(preset=name)
    assert {"sketch", "tune", "splice"} <= load_operators(config).keys()
