"""Outliers of a set: single ones and runs of neighbours, where the problem permits them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evaluator.values import Permitted
from evaluator.worker.cuda.check_sets import CheckSets
from evaluator.worker.cuda.timed_sets import TimedSets
from evaluator.worker.opened import OpenedProblem, open_problem
from evaluator.worker.outliers import Runs, add_outliers
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import StandInDriver

NUMEL = 128 * 2048


@pytest.fixture(autouse=True)
def worker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker writes its problem's file where it is."""
    monkeypatch.chdir(tmp_path)


def sizes_of_runs(outlying: torch.Tensor) -> torch.Tensor:
    """How many neighbours each run of true elements has."""
    edges = torch.diff(outlying.flatten().int(), prepend=torch.zeros(1), append=torch.zeros(1))
    return (edges == -1).nonzero() - (edges == 1).nonzero()


@pytest.mark.parametrize("numel", [1, 3, 5, 700, 1 << 20])
def test_outliers_are_single_ones_and_runs_each_scaled_once(numel: int) -> None:
    generator = torch.Generator().manual_seed(2)
    longest, single = [], 0
    for _ in range(20):
        values = torch.ones(numel)
        add_outliers(values, -8.0, generator, Runs.SOME)
        assert set(values.tolist()) <= {1.0, -8.0}
        outlying = values < 0
        assert outlying.any()
        assert outlying.sum() <= numel / 16 + numel / 4096 + 1
        sizes = sizes_of_runs(outlying)
        longest.append(int(sizes.max()))
        single += int((sizes == 1).sum())
    assert single
    assert numel < 256 or single < 20 * (numel / 4096 + 5)
    assert max(longest) >= numel / 256


@pytest.mark.parametrize(
    ("runs", "least", "most"), [(Runs.NONE, 0, 0), (Runs.SOME, 15, 45), (Runs.LONGEST, 60, 60)]
)
def test_so_many_sets_have_runs(runs: Runs, least: int, most: int) -> None:
    generator = torch.Generator().manual_seed(4)
    found = 0
    for _ in range(60):
        values = torch.ones(1 << 16)
        add_outliers(values, 8.0, generator, runs)
        found += int(sizes_of_runs(values > 1).max()) > 3
    assert least <= found <= most


def sets_of(function: str, *, sets: int) -> tuple[OpenedProblem, TimedSets, Permitted]:
    """Open a problem whose inputs are from 0 to 1, and prepare its timed sets."""
    source = SOFTMAX.source.replace("torch.softmax(x, dim=1)", function).replace("randn", "rand")
    opened, _ = open_problem({"source": source, "seed": 1, "precision": "fp32"})
    timed = TimedSets(StandInDriver(waits=False), opened)
    return opened, timed, timed.stock(2, sets)


@pytest.mark.parametrize("sets", [0, 4], ids=["drawn", "mixed"])
def test_half_of_the_timed_sets_with_outliers_have_single_ones_alone(sets: int) -> None:
    _, timed, permitted = sets_of("torch.softmax(x, dim=1)", sets=sets)
    assert permitted.runs
    assert "spiked" in permitted.variants
    found = 0
    for seed in range(40):
        (value,) = timed.fill(["spiked"], 1000 * seed)[0]
        assert isinstance(value, torch.Tensor)
        found += int(sizes_of_runs(value < 0).max()) > 3
    assert 8 <= found <= 32


@pytest.mark.parametrize("sets", [0, 4], ids=["drawn", "mixed"])
def test_a_product_that_neighbours_overflow_meets_single_outliers_alone(sets: int) -> None:
    opened, timed, permitted = sets_of("torch.cumprod(x, dim=1)", sets=sets)
    assert not permitted.runs
    assert "spiked" in permitted.variants
    checks = CheckSets(StandInDriver(waits=False), opened, {})
    for seed in range(10):
        assert checks.draw(0, seed, "spiked", runs=permitted.runs)
        for (value,) in (*timed.fill(["spiked"], seed), checks.inputs(0)):
            assert isinstance(value, torch.Tensor)
            outlying = value < 0
            assert 0 < outlying.sum() <= NUMEL / 4096
            assert sizes_of_runs(outlying).max() <= 3
