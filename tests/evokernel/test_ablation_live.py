"""`benchmarks/ablation_live.py`: equal searches on a device, and the table of what they found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import evokernel
from benchmarks.ablation_live import (
    COMPARED,
    NO_REWRITE,
    Outcome,
    compare,
    markdown,
    read_outcomes,
    settings_of,
)
from benchmarks.ablation_variants import FULL
from evokernel.config import resolve
from evokernel.report import Report
from problems.errors import ConfigError, EvaluatorError
from tests.evokernel import landscape as world


class Searches:
    """Real searches of a made-up world, each of a few evaluations in place of minutes."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.fails_at = -1

    def __call__(self, variant: str, seed: int, folder: Path) -> Report:
        if len(self.done) == self.fails_at:
            (folder / "half").mkdir(parents=True)
            raise EvaluatorError("the device is gone")
        self.done.append((variant, seed))
        return evokernel.run(
            folder=folder,
            settings=[*settings_of(variant, 2), "search.generations=2"],
            level=1,
            problems="19,21",
            scale="tiny",
            device="cpu",
            rng_seed=seed,
            evaluator=world.Landscape(),
        )


def test_each_variant_has_the_same_seeds_and_is_searched_once(tmp_path: Path) -> None:
    searches = Searches()
    searches.fails_at = 4
    with pytest.raises(EvaluatorError):
        compare(tmp_path, 2, searches)
    searches.fails_at = -1
    compare(tmp_path, 2, searches)
    compare(tmp_path, 2, searches)
    assert searches.done == [(variant, seed) for seed in range(2) for variant in COMPARED]
    outcomes = read_outcomes(tmp_path / "outcomes.jsonl")
    assert len(outcomes) == 2 * 2 * len(COMPARED)
    assert all(one.evaluations and one.speedup >= 1.0 for one in outcomes)
    assert "landscape-1" in outcomes[0].device
    assert "2 problems, 2 seeds" in markdown(outcomes)


def test_a_full_search_rewrites_and_one_variant_is_it_without() -> None:
    full, greedy, luck, plain = (resolve(settings=settings_of(v, 2)) for v in COMPARED)
    assert full.operators.use == ("sketch", "tune", "splice", "rewrite")
    assert greedy.operators.use == full.operators.use
    assert luck.operators.use == ("sketch",)
    assert plain.model_copy(update={"operators": full.operators}) == full
    assert set(full.operators.use) - set(plain.operators.use) == {"rewrite"}


def found(variant: str, problem: str, seed: int, speedup: float) -> Outcome:
    return Outcome(
        variant=variant, seed=seed, problem=problem, speedup=speedup, evaluations=7, device="GPU"
    )


def test_the_table_holds_what_each_found_over_the_full_search() -> None:
    speedups = dict(zip(COMPARED, (2.0, 1.0, 3.0, 2.0), strict=True))
    outcomes = [
        found(variant, problem, seed, speedups[variant] * factor)
        for variant in COMPARED
        for problem, factor in (("1/1", 1.0), ("1/2", 4.0))
        for seed in range(3)
    ]
    full, greedy, luck, plain = markdown(outcomes).splitlines()[-4:]
    assert full.startswith(f"| {FULL} | 2.00x | 8.00x | 4.00x (")
    assert full.endswith("| - | 21 |")
    assert "| 0.50x (0.50 to 0.50) |" in greedy
    assert "| 1.50x (1.50 to 1.50) |" in luck
    assert plain.startswith(f"| {NO_REWRITE} |")
    assert "| 1.00x (1.00 to 1.00) |" in plain
    with pytest.raises(ConfigError, match="1 outcomes are missing"):
        markdown(outcomes[:-1])


def test_another_kind_of_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "outcomes.jsonl").write_text('[{"speedup": 2}]\n')
    with pytest.raises(ConfigError, match="does not hold outcomes"):
        compare(tmp_path, 1, Searches())
    assert (tmp_path / "outcomes.jsonl").read_text() == '[{"speedup": 2}]\n'


def test_what_is_not_verified_counts_as_nothing(tmp_path: Path) -> None:
    searches = Searches()

    def unverified(variant: str, seed: int, folder: Path) -> Report:
        report = searches(variant, seed, folder)
        return replace(
            report, problems=tuple(replace(one, status="unverified") for one in report.problems)
        )

    compare(tmp_path, 1, unverified)
    assert {one.speedup for one in read_outcomes(tmp_path / "outcomes.jsonl")} == {1.0}
