"""What the searches of `benchmarks/ablation.py` come to: figures, the page, plots."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.ablation_figures import Figures, estimate, markdown
from benchmarks.ablation_plots import plot
from benchmarks.ablation_replay import Run, config_on, digest_of
from benchmarks.ablation_tables import Table
from benchmarks.ablation_variants import FULL, STEADY
from problems.errors import ConfigError
from tests.evokernel import landscape as valley
from tests.evokernel.small_world import ZEROS, small_world


def hand_made(variant: str, table: Table, seed: int, speedup: float) -> Run:
    return Run(
        problem=table.world.problem.label,
        variant=variant,
        seed=seed,
        limit=8,
        table=table.digest,
        config=digest_of(config_on(table, variant, seed, 8)),
        evaluations=8,
        unknown=0,
        steps=((1, 1.0), (4, speedup)),
        seconds=0.0,
    )


def two_tables(folder: Path) -> list[Table]:
    tables = []
    for number in (1, 2):
        world = replace(small_world(), problem=valley.problem(number))
        table = Table.create(folder / f"{number}.jsonl", world)
        for program, configuration in world.points():
            speedup = 1.0 if program == 0 else 2.0 * number
            table.add(program, configuration, valley.fit(speedup, valley.facts_at(ZEROS)))
        tables.append(table)
    return tables


def hand_made_runs(tables: list[Table]) -> list[Run]:
    """A full search that finds the best of both tables, and one that finds half of the second."""
    pairs = [(table, seed, 2.0 * n) for n, table in enumerate(tables, 1) for seed in (0, 1)]
    full = [hand_made(FULL, *pair) for pair in pairs]
    half = [
        hand_made("no splice", table, seed, found / 2 if found > 2 else found)
        for table, seed, found in pairs
    ]
    return [*full, *half]


def hand_made_figures(folder: Path) -> Figures:
    tables = two_tables(folder)
    return Figures.of(hand_made_runs(tables), tables)


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
    assert "| no splice | its share goes to the others |" in text
    assert "Rewriting is not tested on a CPU." in text


def test_the_page_names_the_problem_whose_table_lacks_points(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    runs = hand_made_runs(tables)
    runs = [replace(run, unknown=2) if run == runs[-1] else run for run in runs]
    label = tables[1].world.problem.label
    text = markdown(Figures.of([*runs, *runs], tables), (8,))
    assert f"\n- {label}: no splice 12.5%" in text, "of 16, twice the same file or not"
    assert f"- {tables[0].world.problem.label}:" not in text


def test_a_variant_is_compared_with_its_own_control(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    pairs = [(table, seed) for table in tables for seed in (0, 1)]
    full = [hand_made(FULL, *pair, 4.0) for pair in pairs]
    steady = [hand_made(STEADY, *pair, 2.0) for pair in pairs]
    alone = [hand_made("no islands", *pair, 1.0) for pair in pairs]
    text = markdown(Figures.of([*full, *steady, *alone], tables), (8,))
    assert "| full, no restarts | 0.500 (0.500-0.500) [+0 -2] |" in text
    assert "| no islands (over full, no restarts) | 0.500 (0.500-0.500) [+0 -2] |" in text
    with pytest.raises(ConfigError, match=r"'no islands' where .*full, no restarts"):
        Figures.of([*full, *alone], tables)


def test_unfinished_replays_make_no_figures(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    runs = [hand_made(FULL, tables[0], 0, 2.0), hand_made(FULL, tables[1], 1, 2.0)]
    with pytest.raises(ConfigError, match="2 searches are missing"):
        Figures.of(runs, tables)


def test_searches_of_something_that_has_changed_make_no_figures(tmp_path: Path) -> None:
    tables = two_tables(tmp_path)
    runs = [hand_made(FULL, table, 0, 2.0) for table in tables]
    Figures.of(runs, tables)
    for stale in (
        replace(runs[0], table=runs[1].table),
        replace(runs[0], config=runs[1].config[::-1]),
        replace(runs[0], variant="one that was renamed"),
    ):
        with pytest.raises(ConfigError, match="1 searches are of tables or variants that have"):
            Figures.of([stale, runs[1]], tables)
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
