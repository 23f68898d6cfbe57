"""`benchmarks/ablation.py`, on worlds of a few points."""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.configuration import with_space
from archives.evaluation import Evaluation, KernelFacts, Status
from benchmarks.ablation_figures import Figures, estimate, markdown
from benchmarks.ablation_plots import plot
from benchmarks.ablation_record import Slice, path_of, record
from benchmarks.ablation_replay import Plan, Run, read_runs, replay, search
from benchmarks.ablation_tables import Table
from benchmarks.ablation_variants import FULL, VARIANTS
from benchmarks.ablation_worlds import World, thinned
from evaluator.evaluator import Capacity
from problems.catalogue import load_level
from problems.errors import ConfigError
from problems.problem import Scale
from problems.trace import trace
from tests.evokernel import landscape as valley

ON_CPU = [name for name, variant in VARIANTS.items() if variant.device in ("", "cpu")]
PLAN = Slice(evaluations=24, points=12)


def small_world() -> World:
    """The landscape's program in 12 points."""
    space = {"A": [0, 1, 6], "B": [0, 6], "C": [0, 5], "D": [0], "E": [0]}
    return World(
        problem=valley.problem(1),
        device=valley.DEVICE,
        referee_version="landscape-1",
        noise_floor=0.015,
        programs=(
            ("reference", valley.problem(1).source.replace("class Model:", "class ModelNew:")),
            ("valley", with_space(valley.PROGRAM, space)),
        ),
    )


def recorded(folder: Path, evaluator: valley.Landscape, plan: Slice = PLAN) -> Table:
    asyncio.run(record(folder, [valley.problem(1)], evaluator, plan))
    return Table.read(path_of(folder, valley.problem(1)))


def begun(folder: Path) -> Path:
    path = path_of(folder, valley.problem(1))
    Table.create(path, small_world())
    return path


def made_up(number: int, configuration: dict[str, object], luck: np.random.Generator) -> Evaluation:
    """A verdict that the configuration decides on, with noise of 1 %."""
    draw = np.random.default_rng([number, *json.dumps(configuration, sort_keys=True).encode()])
    speedup = 1.0 if number == 0 else math.exp(draw.normal(0.3, 0.5) + luck.normal(0, 0.01))
    facts = KernelFacts(launches=1 + number, own_kernel_share=float(number > 0), work=64 << number)
    return valley.fit(speedup, replace(facts, reuse=valley.facts_at(_ZEROS).reuse))


_ZEROS = dict.fromkeys(valley.NAMES, 0)


def real_world(folder: Path) -> Table:
    """The sketches of a scan, two programs that share parameters, with made-up verdicts."""
    problem = load_level(1, Scale.SMALL, [93])[0]
    device = replace(valley.DEVICE, vector_bits=256)
    capacity = Capacity(device=device, in_flight=1, noise_floor=0.015, memory_bytes=0)
    world = World.write(problem, trace(problem.source), capacity, 30)
    table = Table.create(folder / "1-093.jsonl", world)
    luck = np.random.default_rng(0)
    for number, configuration in world.points():
        for _ in range(2):
            table.add(number, configuration, made_up(number, dict(configuration), luck))
    return table


def test_recording_measures_each_point_as_often_as_asked_and_then_no_more(tmp_path: Path) -> None:
    begun(tmp_path)
    evaluator = valley.Landscape()
    table = recorded(tmp_path, evaluator)
    assert len(evaluator.requests) == 2 * 13
    assert {len(found) for found in table.measured.values()} == {2}
    assert evaluator.is_closed
    again = valley.Landscape()
    recorded(tmp_path, again)
    assert again.requests == []


def test_recording_goes_on_where_it_stopped_even_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = begun(tmp_path)
    recorded(tmp_path, over := valley.Landscape(), replace(PLAN, end=time.monotonic()))
    assert over.requests == []
    recorded(tmp_path, valley.Landscape())
    whole = path.read_text()
    path.write_text(whole[:-40])
    recorded(tmp_path, once := valley.Landscape())
    assert len(once.requests) == 1
    assert sorted(path.read_text().splitlines()) == sorted(whole.splitlines())


def test_a_busy_host_is_asked_again_but_not_for_ever(tmp_path: Path) -> None:
    begun(tmp_path)
    unstable = Evaluation(status=Status.UNSTABLE, reason="noisy_host")
    busy = valley.Landscape(verdict=lambda request: unstable)
    table = recorded(tmp_path, busy, replace(PLAN, evaluations=13))
    assert len(busy.requests) == 13
    for _ in range(4):
        table = recorded(tmp_path, busy, replace(PLAN, evaluations=13))
    assert len(busy.requests) == 3 * 13
    assert table.num_measurements == 0


def test_numbers_of_two_devices_never_mix(tmp_path: Path) -> None:
    path = begun(tmp_path)
    path.write_text(path.read_text().replace("landscape-0", "elsewhere"))
    with pytest.raises(ConfigError, match="take another folder"):
        recorded(tmp_path, valley.Landscape())


@pytest.mark.parametrize("variant", ON_CPU)
def test_no_variant_leaves_the_world_of_real_sketches(tmp_path: Path, variant: str) -> None:
    table = real_world(tmp_path)
    run = search(table, variant, 0, 24)
    assert run.unknown == 0
    assert run.evaluations == 24
    counts, speedups = zip(*run.steps, strict=True)
    assert list(counts) == sorted(set(counts))
    assert 1.0 < max(speedups) <= table.best
    assert search(table, variant, 0, 24).steps == run.steps
    assert search(table, variant, 1, 24).steps != run.steps


def test_what_counts_is_the_median_and_not_what_was_seen(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    luck = np.random.default_rng(0)
    for number, configuration in table.world.points():
        for speedup in (1.0,) if number == 0 else (1.5, 1.5, float(luck.uniform(3, 9))):
            table.add(number, configuration, valley.fit(speedup, valley.facts_at(_ZEROS)))
    runs = [search(table, "random configurations", seed, 13) for seed in range(6)]
    assert {value for run in runs for _, value in run.steps} == {1.0, 1.5}


def test_a_point_that_no_table_has_costs_an_evaluation_and_is_counted(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t.jsonl", small_world())
    for number, configuration in table.world.points():
        if configuration.get("A") != 6:
            table.add(number, configuration, valley.fit(1.5, valley.facts_at(_ZEROS)))
    run = search(table, FULL, 0, 9)
    assert run.evaluations == 9
    assert 0 < run.unknown < 9


def test_replays_are_appended_once_and_read_back(tmp_path: Path) -> None:
    begun(tmp_path)
    recorded(tmp_path, valley.Landscape())
    out = tmp_path / "runs"
    paths = sorted(tmp_path.glob("*.jsonl"))
    for seeds in (1, 2):
        plan = Plan(variants=[FULL, "no rewrite"], seeds=seeds, evaluations=13, jobs=1)
        replay(paths, out, plan)
    runs = read_runs([out])
    assert [(run.variant, run.seed) for run in runs] == [(FULL, 0), (FULL, 1)]
    assert runs[0].steps[-1][1] == pytest.approx(Table.read(paths[0]).best)


def test_a_table_that_is_not_finished_is_not_replayed(tmp_path: Path) -> None:
    path = begun(tmp_path)
    plan = Plan(variants=[FULL], seeds=1, evaluations=13, jobs=1)
    with pytest.raises(ConfigError, match=r"13 points .* were never measured"):
        replay([path], tmp_path / "runs", plan)


def hand_made(variant: str, problem: str, seed: int, speedup: float) -> Run:
    steps = ((1, 1.0), (4, speedup))
    return Run(
        problem=problem,
        variant=variant,
        seed=seed,
        limit=8,
        measurements=13,
        evaluations=8,
        unknown=0,
        steps=steps,
        seconds=0.0,
    )


def two_tables(folder: Path) -> list[Table]:
    tables = []
    for number in (1, 2):
        world = replace(small_world(), problem=valley.problem(number))
        table = Table.create(folder / f"{number}.jsonl", world)
        for program, configuration in world.points():
            speedup = 1.0 if program == 0 else 2.0 * number
            table.add(program, configuration, valley.fit(speedup, valley.facts_at(_ZEROS)))
        tables.append(table)
    return tables


def hand_made_figures(folder: Path) -> Figures:
    tables = two_tables(folder)
    labels = [table.world.problem.label for table in tables]
    full = [hand_made(FULL, labels[n], seed, 2.0 * (n + 1)) for n in (0, 1) for seed in (0, 1)]
    worse = [hand_made("no splice", one.problem, one.seed, one.steps[1][1] / 2) for one in full[2:]]
    same = [hand_made("no splice", one.problem, one.seed, one.steps[1][1]) for one in full[:2]]
    return Figures.of([*full, *worse, *same], tables)


def test_figures_are_geometric_means_and_paired_ratios(tmp_path: Path) -> None:
    figures = hand_made_figures(tmp_path)
    assert figures.mean(0, 3).value == 1.0
    assert figures.mean(0, 4).value == pytest.approx(math.sqrt(8))
    assert figures.ratio(0, 8) == figures.ratio(1, 3)
    ratio = figures.ratio(1, 8)
    assert ratio.value == pytest.approx(math.sqrt(0.5))
    assert (ratio.low, ratio.high) == pytest.approx((0.5, 1.0))
    assert figures.wins(1, 8) == (0, 1)
    assert (figures.close(0, 8), figures.close(1, 8)) == (1.0, 0.5)


def test_the_interval_covers_the_mean_of_problems_like_these() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(60):
        problems = rng.normal(0.2, 0.1, size=(10, 1))
        found = estimate(problems + rng.normal(0, 0.1, size=(10, 10)))
        covered += found.low <= math.exp(0.2) <= found.high
    assert covered >= 54


def test_the_page_says_what_was_measured_and_what_came_of_it(tmp_path: Path) -> None:
    text = markdown(hand_made_figures(tmp_path), (4, 8, 900))
    assert "2 problems, 2 seeds; measured on Landscape, 1 thread, referee `landscape-1`" in text
    assert "| no splice | 0.707 (0.500-1.000) [+0 -1] | 0.707 (0.500-1.000) [+0 -1] |" in text
    assert "after 900" not in text
    assert "Every point that a search asked for is in its table." in text


def test_unfinished_replays_make_no_figures(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    labels = [table.world.problem.label for table in tables]
    runs = [hand_made(FULL, labels[0], 0, 2.0), hand_made(FULL, labels[1], 1, 2.0)]
    with pytest.raises(ConfigError, match="2 searches are missing"):
        Figures.of(runs, tables)


def test_searches_of_a_table_that_has_changed_make_no_figures(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    runs = [hand_made(FULL, table.world.problem.label, 0, 2.0) for table in tables]
    Figures.of(runs, tables)
    with pytest.raises(ConfigError, match="1 searches are of tables that have changed"):
        Figures.of([replace(runs[0], measurements=12), runs[1]], tables)
    with pytest.raises(ConfigError, match="into a file of its own"):
        Figures.of([replace(runs[0], limit=9), runs[1]], tables)


def test_plots_are_drawn(tmp_path: Path) -> None:
    paths = plot(hand_made_figures(tmp_path), tmp_path / "plots", (4, 8))
    assert [path.name for path in paths] == [
        "ablation-curves.png",
        "ablation-curves.svg",
        "ablation-ratios.png",
        "ablation-ratios.svg",
    ]
    assert all(path.stat().st_size > 5000 for path in paths)
    again = plot(hand_made_figures(tmp_path), tmp_path / "again", (4, 8))
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    least=st.integers(1, 400),
    data=st.data(),
)
def test_thinning_keeps_the_start_and_as_many_points_as_asked(
    sizes: list[int], least: int, data: st.DataObject
) -> None:
    space = {f"P{place}": list(range(size)) for place, size in enumerate(sizes)}
    start = {name: data.draw(st.sampled_from(choices)) for name, choices in space.items()}
    kept = thinned(space, start, least)
    assert math.prod(map(len, kept.values())) >= min(least, math.prod(sizes))
    for name, choices in kept.items():
        assert start[name] in choices
        assert [choice for choice in space[name] if choice in choices] == list(choices)
        assert len(choices) >= min(2, len(space[name]))
