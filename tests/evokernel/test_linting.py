"""Problems of the user's own are looked at once; degenerate ones are left out of the figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tests.evokernel.landscape as world
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Lint
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Problem, Scale


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


def searched(folder: Path, evaluator: Looking, scale: Scale = Scale.CUSTOM) -> Store:
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


@pytest.mark.parametrize("error", [ProblemError("no"), EvaluatorError("died")], ids=str)
def test_what_cannot_be_looked_at_is_searched_all_the_same(
    tmp_path: Path, error: Exception
) -> None:
    with searched(tmp_path / "run", Looking(error)) as store:
        assert store.counts().evaluations > 2
