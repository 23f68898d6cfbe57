"""Problems of the user's own are looked at once; degenerate ones are left out, and short ones."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import tests.evokernel.landscape as world
from archives.evaluation import Evaluation
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evokernel.cli.report import print_report
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Problem, Scale
from tests.evokernel.gpu_landscape import GPU, RATES, GpuLandscape


class Looking(world.Landscape):
    """A landscape that says what it thinks of problem 1."""

    def __init__(self, answer: str | Exception, remark: str = "") -> None:
        super().__init__()
        self.answer = answer
        self.remark = remark
        self.looked: list[int] = []

    async def lint(self, problem: Problem) -> Lint:
        self.looked.append(problem.id)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Lint(reason=self.answer) if problem.id == 1 else Lint(remark=self.remark)


class Short(GpuLandscape):
    """A GPU on which the reference of problem 1 takes `reference_ms`, that of others 1 ms."""

    def __init__(self, reference_ms: float, launch_ms: float) -> None:
        super().__init__()
        self.reference_ms = reference_ms
        self.launch_ms = launch_ms

    async def start(self) -> Capacity:
        return replace(await super().start(), rates=replace(RATES, launch_ms=self.launch_ms))

    def judge(self, request: EvaluationRequest) -> Evaluation:
        found = super().judge(request)
        if request.problem.id != 1 or found.latency_ms is None:
            return found
        latency_ms = self.reference_ms * found.latency_ms
        return replace(found, reference_ms=self.reference_ms, latency_ms=latency_ms)


def text_of(store: Store) -> str:
    out = StringIO()
    print_report(read_report(store), Console(file=out, width=200))
    return " ".join(out.getvalue().split())


def searched(folder: Path, evaluator: world.Landscape, scale: Scale = Scale.CUSTOM) -> Store:
    config = world.config("search.generations=2", "evaluation.verify=false")
    run = RunRecord(
        name=folder.name,
        created="2026-01-01T00:00:00+00:00",
        config_json=config.model_dump_json(),
        rng_seed=0,
        scale=scale.value,
    )
    problems = [replace(problem, scale=scale) for problem in world.problems(2)]
    store = Store.create(folder, run, problems=problems)
    world.sit(store, config, evaluator)
    return store


def test_a_degenerate_problem_is_searched_but_not_counted(tmp_path: Path) -> None:
    evaluator = Looking("input 0 changes nothing")
    with searched(tmp_path / "run", evaluator) as store:
        assert sorted(evaluator.looked) == [1, 2], "once each, however many generations"
        assert [problem.degenerate for problem in store.problems()] == [
            "input 0 changes nothing",
            None,
        ]
        report = read_report(store)
    assert [line.status == "degenerate" for line in report.problems] == [True, False]
    assert report.count("degenerate") == 1
    assert sum(line.counts for line in report.problems) == 1


def test_of_a_loose_problem_the_report_says_so_and_counts_it(tmp_path: Path) -> None:
    with searched(tmp_path / "run", Looking("a flaw", remark="zeros pass")) as store:
        assert [problem.loose for problem in store.problems()] == [None, "zeros pass"]
        report = read_report(store)
        assert report_to_json(report)["num_loose"] == 1
        assert [line.counts for line in report.problems] == [False, True]


def test_bundled_problems_are_not_looked_at_again(tmp_path: Path) -> None:
    evaluator = Looking("input 0 changes nothing")
    with searched(tmp_path / "run", evaluator, Scale.TINY) as store:
        assert evaluator.looked == []
        assert {problem.degenerate for problem in store.problems()} == {None}


@pytest.mark.parametrize(
    ("reference_ms", "launch_ms", "counts"),
    [(0.008, 0.0035, False), (0.021, 0.0035, True), (0.021, 0.011, False)],
)
def test_on_a_gpu_a_reference_hardly_longer_than_a_launch_is_left_out(
    tmp_path: Path, reference_ms: float, launch_ms: float, counts: bool
) -> None:
    with searched(tmp_path / "run", Short(reference_ms, launch_ms)) as store:
        assert store.run().device == GPU
        report, text = read_report(store), text_of(store)
    assert [line.counts for line in report.problems] == [counts, True]
    assert report_to_json(report)["num_degenerate"] == report.count("degenerate") == (not counts)
    line = report.problems[0]
    assert line.speedup is not None, "its numbers are shown"
    said = f"the reference takes {1000 * reference_ms:.0f} us, hardly more than a launch"
    assert line.reason == ("" if counts else said)
    assert (f"{line.problem.label} degenerate: {said}" in text) is not counts
    assert report.short == ()


def test_on_a_gpu_short_references_of_reduced_sizes_are_named_and_counted(tmp_path: Path) -> None:
    with searched(tmp_path / "run", Short(0.008, 0.0035), Scale.SMALL) as store:
        report, text = read_report(store), text_of(store)
    assert [line.counts for line in report.problems] == [True, True]
    assert report_to_json(report)["num_short"] == 1
    label = report.problems[0].problem.label
    assert f"though the reference takes hardly longer than a launch: 1 ({label})." in text


def test_a_report_of_degenerate_problems_alone_says_so(tmp_path: Path) -> None:
    with searched(tmp_path / "run", Looking("a flaw")) as store:
        second = store.problems()[1].key
        store.mark_problem(second, degenerate="another")
        assert "no problem counts, each is degenerate" in text_of(store)


@pytest.mark.parametrize("error", [ProblemError("no"), EvaluatorError("died")], ids=str)
def test_what_cannot_be_looked_at_is_searched_all_the_same(
    tmp_path: Path, error: Exception
) -> None:
    with searched(tmp_path / "run", Looking(error)) as store:
        assert store.counts().evaluations > 2
