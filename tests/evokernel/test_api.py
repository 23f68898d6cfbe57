from __future__ import annotations

from pathlib import Path

import pytest

import evokernel
from archives.configuration import with_configuration
from archives.evaluation import Status
from evokernel.config import resolve
from tests.evokernel import landscape as world

KERNEL = with_configuration(world.PROGRAM, dict.fromkeys(world.NAMES, 1))


def test_run_searches_and_returns_the_report(tmp_path: Path) -> None:
    report = evokernel.run(
        level=1,
        problems="19,20",
        scale="tiny",
        generations=1,
        preset="demo",
        folder=tmp_path / "run",
        evaluator=world.Landscape(),
    )
    assert [line.problem.id for line in report.problems] == [19, 20]
    assert report.counts.evaluations > 0
    assert (tmp_path / "run" / "run.db").exists()


def test_run_takes_a_users_own_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(world.problem(1).source)
    report = evokernel.run(
        problem_file=file, generations=0, folder=tmp_path / "run", evaluator=world.Landscape()
    )
    assert report.problems[0].problem.name == "mine"


def test_resume_returns_the_report_too(tmp_path: Path) -> None:
    config = resolve(
        settings=[
            "search.generations=0",
            "problems.level=1",
            "problems.ids=19",
            "problems.scale=tiny",
        ]
    )
    evokernel.run(config, folder=tmp_path / "run", evaluator=world.Landscape())
    report = evokernel.resume(tmp_path / "run", evaluator=world.Landscape())
    assert report.state == "finished"


def test_run_names_a_wrong_argument() -> None:
    with pytest.raises(evokernel.ConfigError, match=r"no argument 'generation': it has level"):
        evokernel.run(level=1, generation=2)
    with pytest.raises(evokernel.ConfigError, match="not both"):
        evokernel.run(resolve(), level=1)


def test_evaluate_judges_and_closes_the_evaluator() -> None:
    evaluator = world.Landscape()
    evaluation = evokernel.evaluate(world.problem(1).source, KERNEL, evaluator=evaluator)
    assert evaluation.status is Status.OK
    assert evaluation.speedup == pytest.approx(world.speedup_at(dict.fromkeys(world.NAMES, 1), 1))
    assert evaluator.is_closed
