"""What a search climbs by: the matched speedup where the run has a baseline."""

from __future__ import annotations

import asyncio
import json
import math
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from archives.descriptors import axes_named, describe
from archives.evaluation import Evaluation, Status
from archives.export import canonical_export
from archives.records import ProblemStatus
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evokernel.baseline_file import save_baseline
from evokernel.baseline_shelf import own_folder
from evokernel.cli.main import build_app
from evokernel.config import RunConfig
from evokernel.engine import Engine
from evokernel.founders import gather_founders
from evokernel.launch import make_plan, sit
from evokernel.matching import Matching
from evokernel.problem_report import best_of
from evokernel.replay import ReplayEvaluator, create_replay
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import ERROR, STRICT, GpuLandscape, baseline

COARSE = 3e-4
"""Error of TF32 in this world, which torch uses at its defaults."""
CHEAPER = 1.3
"""How much faster a program is that computes with that error."""


class Mixed(GpuLandscape):
    """Half of the programs are as inaccurate as TF32, and a little faster for it."""

    def judge(self, request: EvaluationRequest) -> Evaluation:
        found = super().judge(request)
        if found.configuration is None:
            return replace(found, error=COARSE)
        if int(found.configuration["D"]) % 2 == 0:
            return found
        assert found.speedup is not None
        assert found.interval is not None
        speedup = CHEAPER * found.speedup
        interval = replace(
            found.interval, low=CHEAPER * found.interval.low, high=CHEAPER * found.interval.high
        )
        return replace(found, speedup=speedup, interval=interval, error=COARSE)


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def _config(tmp_path: Path, *settings: str) -> RunConfig:
    path = tmp_path / "h200.json"
    save_baseline(baseline(), path)
    return world.config("search.generations=4", f"evaluation.baseline={path}", *settings)


def _sit(store: Store, config: RunConfig, evaluator: world.Landscape) -> None:
    plan = make_plan(world.config("problems.level=1", "problems.ids=19"))
    plan = replace(
        plan,
        config=config,
        problems=tuple(store.problems()),
        operators=world.operators(),
        device="cuda",
    )
    sit(store, plan, evaluator=evaluator)


def _by_cell(store: Store, problem_key: str) -> dict[tuple[int, ...], list[Evaluation]]:
    """Verdicts of the search by their cell."""
    axes = axes_named(("launches", "reuse", "work"))
    cells: dict[tuple[int, ...], list[Evaluation]] = {}
    for record in store.evaluations(problem_key):
        cell = describe(record.evaluation.facts, axes)
        if record.slot is not None and cell is not None:
            cells.setdefault(cell, []).append(record.evaluation)
    return cells


def _elites(store: Store, problem_key: str) -> dict[tuple[int, ...], float]:
    best: dict[tuple[int, ...], float] = {}
    for elite in store.elites(problem_key):
        best[elite.cell] = max(best.get(elite.cell, -math.inf), elite.objective)
    return best


def test_cells_go_to_the_best_by_matched_speedup_where_there_is_a_baseline(
    tmp_path: Path,
) -> None:
    config = _config(tmp_path)
    with world.new_store(tmp_path / "run", config, 3) as store:
        _sit(store, config, Mixed())
        hidden = 0
        for number in (1, 2):
            key = world.problem(number).key
            elites = _elites(store, key)
            for cell, verdicts in _by_cell(store, key).items():
                best = max(verdicts, key=lambda one: one.matched_speedup or 0.0)
                assert elites[cell] == pytest.approx(math.log(best.matched_speedup or 0.0))
                hidden += max(one.speedup or 0.0 for one in verdicts) > (best.speedup or 0.0)
        assert hidden, "the standard speedup would have kept another program somewhere"
        # The third problem is not in the baseline.
        key = world.problem(3).key
        elites = _elites(store, key)
        for cell, verdicts in _by_cell(store, key).items():
            assert elites[cell] == pytest.approx(
                math.log(max(one.speedup or 0.0 for one in verdicts))
            )


def test_a_replay_and_a_resumed_run_reach_the_same_archive(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with world.new_store(tmp_path / "run", config, 2) as store:
        _sit(store, config, Mixed())
        expected = canonical_export(store)
        again, plan = create_replay(store, tmp_path / "again")
        with again:
            sit(
                again,
                replace(plan, operators=world.operators()),
                evaluator=ReplayEvaluator(store),
                replayed=store,
            )
            assert canonical_export(again) == expected
    interrupted = Mixed()

    async def stops(request: EvaluationRequest) -> Evaluation:
        if len(interrupted.requests) == 25:
            raise KeyboardInterrupt
        return await Mixed.evaluate(interrupted, request)

    interrupted.evaluate = stops  # type: ignore[method-assign]
    with world.new_store(tmp_path / "resumed", config, 2) as store:
        with pytest.raises(KeyboardInterrupt):
            _sit(store, config, interrupted)
        _sit(store, config, Mixed())
        assert canonical_export(store) == expected


def test_one_candidate_stands_for_a_problem_with_both_its_speedups(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, Mixed())
        key = world.problem(1).key
        found = best_of(store, world.problem(1))
        assert found is not None
        evaluations = store.elite_evaluations(key)
        best = max(evaluations, key=lambda one: evaluations[one].matched_speedup or 0.0)
        assert (found.candidate, found.is_verified) == (best, True)
        report = read_report(store)
        line = report_to_json(report)["problems"][0]
        assert line["candidate"] == best
        assert line["speedup"] == found.evaluation.speedup
        assert line["matched_speedup"] == line["objective_speedup"]
        assert line["matched_speedup"] == pytest.approx(STRICT * line["speedup"])
        # What is surely reached is the lower end of the matched speedup.
        low = STRICT * line["speedup_low"]
        assert report.matched is not None
        assert {p: share == 1 for p, share in report.matched.fast_p_sure.items()} == {
            p: low > max(p, 1.015) for p in report.matched.fast_p_sure
        }
    shown = CliRunner().invoke(build_app("report"), ["report", str(tmp_path / "run")]).stdout
    assert "The search climbed by the matched speedup" in shown
    done = CliRunner().invoke(
        build_app("export"), ["export", str(tmp_path / "run"), str(tmp_path / "kernels")]
    )
    assert done.exit_code == 0
    assert f"{line['speedup']:.2f}x, {line['matched_speedup']:.2f}x matched" in done.stdout


def test_a_run_that_ranked_by_the_standard_speedup_is_reported_by_it(tmp_path: Path) -> None:
    """As on a GPU in earlier versions, whose verdicts had matched speedups all the same."""
    config = _config(tmp_path, "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, Mixed())
        key = world.problem(1).key
        assert read_report(store).climbs_by_matched
        speedups = {
            record.candidate: math.log(record.evaluation.speedup or 0.0)
            for record in store.evaluations(key)
            if record.evaluation.speedup
        }
    with sqlite3.connect(tmp_path / "run/run.db") as database:
        for candidate, objective in speedups.items():
            attempts = (
                "SELECT attempt.id FROM attempt JOIN candidate ON candidate.id = result_id "
                "WHERE digest = ?"
            )
            database.execute(
                f"UPDATE elite SET objective = ? WHERE attempt_id IN ({attempts})",
                (objective, candidate),
            )
    with Store.open(tmp_path / "run") as store:
        report = read_report(store)
        held = {elite.candidate for elite in store.elites(key)}
    best = report.problems[0].best
    assert not report.climbs_by_matched
    assert best is not None
    assert best.candidate == max(held, key=lambda one: speedups[one])
    assert best.objective_speedup == best.speedup


def test_the_archive_is_shown_in_the_order_of_the_objective(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, Mixed())
    shown = CliRunner().invoke(
        build_app("archive"), ["archive", str(tmp_path / "run"), "--id", "1", "--json"]
    )
    elites = json.loads(shown.stdout)["elites"]
    objectives = [elite["objective_speedup"] for elite in elites]
    speedups = [elite["speedup"] for elite in elites]
    assert objectives == sorted(objectives, reverse=True)
    assert speedups != sorted(speedups, reverse=True), "the order would be another one"
    assert objectives == pytest.approx([elite["matched_speedup"] for elite in elites])


def test_another_run_starts_from_the_best_by_matched_speedup_first(tmp_path: Path) -> None:
    config = _config(tmp_path)
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, Mixed())
        evaluations = store.elite_evaluations(world.problem(1).key)
    kernels, _ = gather_founders(
        world.config(f"problems.from_run={tmp_path / 'run'}").problems, [world.problem(1)]
    )
    names = [name.split()[-1] for name, _ in kernels[world.problem(1).key]]
    matched = {one[:12]: verdict.matched_speedup or 0.0 for one, verdict in evaluations.items()}
    assert [matched[name] for name in names] == sorted(matched[name] for name in names)[::-1]
    assert len(names) > 2


def test_a_kernel_slower_than_tf32_may_be_a_win_over_what_is_as_accurate(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        found = GpuLandscape().judge(request)
        if found.configuration is None:
            return replace(found, error=COARSE)
        assert found.interval is not None
        interval = replace(found.interval, low=0.79, high=0.81)
        return replace(found, speedup=0.8, interval=interval)

    config = _config(tmp_path, "search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, GpuLandscape(verdict=verdict))
        report = read_report(store)
        assert report.problems[0].status == "verified"
        assert report.problems[0].matched_speedup == pytest.approx(1.2)
        assert report.standard.fast_p_sure[1.0] == 0
        assert report.matched is not None
        assert report.matched.fast_p_sure[1.0] == 1


@pytest.mark.parametrize(("error", "is_solved"), [(ERROR, True), (COARSE, False)])
def test_a_problem_is_solved_where_the_objective_is_at_the_ceiling(
    tmp_path: Path, error: float, is_solved: bool
) -> None:
    """At the ceiling with TF32's error, a kernel as accurate as float32 may still gain more."""

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        found = GpuLandscape().judge(request)
        is_own = found.configuration is not None
        share = 0.98 if is_own else 0.5
        return replace(found, roofline_share=share, error=error if is_own else COARSE)

    config = _config(tmp_path, "search.generations=1")
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, GpuLandscape(verdict=verdict))
        (state,) = store.problem_states()
    expected = (ProblemStatus.SOLVED, 0) if is_solved else (ProblemStatus.OPEN, 1)
    assert (state.status, state.generation) == expected


def test_the_share_of_the_objective_is_that_of_the_ceiling_where_accuracy_is_no_choice() -> None:
    problem = world.problem(1)
    verdict = replace(world.fit(2.0, world.facts_at(dict.fromkeys(world.NAMES, 0))), error=ERROR)
    verdict = replace(verdict, roofline_share=0.9, matched_speedup=None)
    assert Matching().share(problem, verdict) == 0.9
    matching = Matching(baseline=baseline())
    strict = matching.complete(problem, verdict)
    assert matching.share(problem, strict) == pytest.approx(0.9)
    coarse = matching.complete(problem, replace(verdict, error=COARSE))
    assert matching.share(problem, coarse) == pytest.approx(0.9 / STRICT)
    assert matching.share(world.problem(9), verdict) == 0.9, "it is not in the baseline"


def test_an_unstable_verification_at_the_ceiling_is_tried_once_a_turn(tmp_path: Path) -> None:
    def verdict(request: EvaluationRequest) -> Evaluation | None:
        if request.purpose is Purpose.VERIFY:
            return Evaluation(status=Status.UNSTABLE, reason="host_noisy")
        return replace(GpuLandscape().judge(request), roofline_share=0.98)

    config = world.config("search.generations=3", "evaluation.verify_tries=1")
    evaluator = GpuLandscape(verdict=verdict)
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(
            store=store, config=config, evaluator=evaluator, operators=world.operators()
        )
        asyncio.run(engine.run())
    purposes = Counter(request.purpose for request in evaluator.requests)
    # Before each of generations 1 to 3, and for the report at the end.
    assert purposes[Purpose.VERIFY] == 3 + 1


def test_a_run_that_began_without_a_baseline_goes_on_without_one(tmp_path: Path) -> None:
    config = world.config("search.generations=1")
    with world.new_store(tmp_path / "run", config, 1) as store:
        _sit(store, config, GpuLandscape())
        save_baseline(baseline(), own_folder() / "later.json")
        longer = world.config("search.generations=2")
        store.set_config(longer.model_dump_json())
        _sit(store, longer, GpuLandscape())
        assert store.generation_reached(world.problem(1).key) == 2
        verdicts = [record.evaluation for record in store.evaluations()]
    assert {verdict.matched_speedup for verdict in verdicts} == {None}
