"""Matched speedups of GPU runs: from the baseline to verdicts, store, report and replay."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archives.evaluation import Status
from archives.export import canonical_export
from archives.store import Store
from evokernel.baseline_file import load_baseline, save_baseline
from evokernel.baseline_shelf import baseline_for, own_folder
from evokernel.cli.main import build_app
from evokernel.launch import make_plan, sit
from evokernel.matching import BASELINE_FILE, Matching, settle_baseline
from evokernel.replay import ReplayEvaluator, create_replay
from evokernel.report import read_report
from evokernel.report_json import report_to_json
from evokernel.verdict import judge_once
from problems.catalogue import load_level
from problems.errors import ConfigError
from problems.problem import Scale
from tests.evokernel import landscape as world
from tests.evokernel.gpu_landscape import GPU, RATES, STRICT, GpuLandscape, baseline

H200_TIMES = Path(__file__).parents[2] / "evokernel/bundled/nvidia-h200-level1-official.json"


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "h200.json"
    save_baseline(baseline(), path)
    return path


@pytest.fixture
def gpu_run(tmp_path: Path, file: Path) -> Path:
    """Folder of a finished run on the made-up GPU, with a baseline of two of its three problems."""
    folder = tmp_path / "run"
    config = world.config("search.generations=1", f"evaluation.baseline={file}")
    with world.new_store(folder, config, 3) as store:
        plan = _plan(store, config)
        sit(store, plan, evaluator=GpuLandscape())
    return folder


def _plan(store: Store, config: Any) -> Any:  # noqa: ANN401 - a plan of this world's operators
    plan = make_plan(world.config("problems.level=1", "problems.ids=19"))
    return replace(
        plan,
        config=config,
        problems=tuple(store.problems()),
        operators=world.operators(),
        device="cuda",
    )


def test_verdicts_of_a_gpu_run_are_matched_and_stored(gpu_run: Path) -> None:
    with Store.open(gpu_run) as store:
        assert store.run().rates == RATES
        for number in (1, 2):
            records = store.evaluations(world.problem(number).key)
            assert {record.purpose for record in records} == {"search", "verify"}
            for record in records:
                verdict = record.evaluation
                assert verdict.speedup is not None
                # Programs here are as accurate as strict float32, which is 1.5 times slower.
                assert verdict.matched_speedup == pytest.approx(STRICT * verdict.speedup)
        unknown = store.evaluations(world.problem(3).key)
        assert {record.evaluation.matched_speedup for record in unknown} == {None}
    assert len(load_baseline(gpu_run / BASELINE_FILE).problems) == 2


def test_a_replay_needs_neither_the_gpu_nor_the_file(gpu_run: Path, tmp_path: Path) -> None:
    (tmp_path / "h200.json").unlink()
    with Store.open(gpu_run) as old:
        store, plan = create_replay(old, tmp_path / "again")
        with store:
            sit(
                store,
                replace(plan, operators=world.operators()),
                evaluator=ReplayEvaluator(old),
                replayed=old,
            )
            assert canonical_export(store) == canonical_export(old)
            assert store.run().rates == RATES
            assert store.run().device == GPU
            first, second = (report_to_json(read_report(each)) for each in (old, store))
    assert first["matched"] == second["matched"]
    assert first["over_best_of_torch"] == second["over_best_of_torch"]


def test_the_report_of_a_gpu_run_needs_no_file(gpu_run: Path, tmp_path: Path) -> None:
    with Store.open(gpu_run) as store:
        found = read_report(store)
        data = report_to_json(found)
    first = data["problems"][0]
    assert first["matched_speedup"] == pytest.approx(STRICT * first["speedup"])
    assert first["compile_speedup"] == pytest.approx(0.8 * first["speedup"])
    assert first["over_best_of_torch"] == pytest.approx(0.5 * first["speedup"])
    assert first["roofline_share"] == pytest.approx(min(0.5 * first["speedup"], 0.95))
    assert data["over_best_of_torch"]["num_problems"] == 2
    assert data["rates"]["read_gbps"] == 4534
    shown = CliRunner().invoke(build_app("report"), ["report", str(gpu_run)]).stdout
    assert "Over the fastest of eager, compiled and autotuned torch" in shown
    assert "of 2 problems" in shown
    assert "4,534 GB/s read" in shown
    grid = CliRunner().invoke(
        build_app("archive"), ["archive", str(gpu_run), "--id", "1", "--json"]
    )
    elite = json.loads(grid.stdout)["elites"][0]
    assert elite["matched_speedup"] == pytest.approx(STRICT * elite["speedup"])
    assert elite["roofline_share"] is not None


def test_reports_and_runs_refuse_a_baseline_of_another_device(
    gpu_run: Path, tmp_path: Path
) -> None:
    other = tmp_path / "h100.json"
    save_baseline(baseline(replace(GPU, name="NVIDIA H100 80GB HBM3")), other)
    done = CliRunner().invoke(
        build_app("report"), ["report", str(gpu_run), "--baseline", str(other)]
    )
    assert done.exit_code == 2
    assert "measured with device NVIDIA H100 80GB HBM3, the run with NVIDIA H200" in done.stderr
    config = world.config("search.generations=0", f"evaluation.baseline={other}")
    with (
        world.new_store(tmp_path / "new", config, 1) as store,
        pytest.raises(ConfigError, match="measured with device NVIDIA H100"),
    ):
        sit(store, _plan(store, config), evaluator=GpuLandscape())


def test_a_baseline_of_the_device_is_found_by_itself(tmp_path: Path) -> None:
    folder = own_folder()
    problems = world.problems(2)
    assert baseline_for(GPU, problems) is None
    save_baseline(baseline(count=1), folder / "one.json")
    save_baseline(baseline(count=2), folder / "two.json")
    save_baseline(baseline(replace(GPU, name="NVIDIA H100")), folder / "another.json")
    (folder / "broken.json").write_text("{")
    found = baseline_for(GPU, problems)
    assert found == baseline(count=2), "the one that knows more problems, of this device"
    newer = replace(GPU, versions={**GPU.versions, "driver": "590.2"})
    assert baseline_for(newer, problems) is None
    assert baseline_for(GPU, world.problems(3)[2:]) is None
    kept = settle_baseline(tmp_path, GPU, problems[:1])
    assert kept is not None
    assert [one.id for one in kept.problems] == [1]
    save_baseline(baseline(count=2), folder / "more.json")
    assert settle_baseline(tmp_path, GPU, problems) == kept, "a run keeps to its baseline"


def test_what_comes_with_evokernel_fits_its_problems() -> None:
    known = load_baseline(H200_TIMES)
    device = replace(GPU, versions={"torch": "2.11.0", "driver": known.versions["driver"]})
    problems = load_level(1, Scale.OFFICIAL)
    assert baseline_for(device, problems) == known
    for problem in problems:
        found = known.of(problem)
        assert found is not None, problem.label
        for name in ("eager", "eager_strict", "eager_tf32"):
            assert found.latency_ms(name), f"{problem.label} {name}"


def test_only_what_was_measured_and_is_not_matched_yet_is_completed() -> None:
    matching = Matching(baseline=baseline())
    verdict = replace(world.fit(2.0, world.facts_at(dict.fromkeys(world.NAMES, 0))), error=3e-4)
    problem = world.problem(1)
    assert matching.complete(problem, verdict) is verdict, "it has a matched speedup"
    bare = replace(verdict, matched_speedup=None)
    assert matching.complete(problem, bare).matched_speedup == 2.0, "TF32 meets TF32"
    assert Matching().complete(problem, bare) is bare
    assert matching.complete(world.problem(9), bare) is bare
    failed = replace(
        bare, status=Status.CRASHED, reason="segfault", speedup=None, interval=None, latency_ms=None
    )
    assert matching.complete(problem, failed) is failed


def test_one_verdict_is_matched_too(file: Path) -> None:
    problem = world.problem(1)
    found = asyncio.run(judge_once(problem, world.PROGRAM, GpuLandscape(), baseline=file))
    assert found.speedup is not None
    assert found.matched_speedup == pytest.approx(STRICT * found.speedup)
    alone = asyncio.run(judge_once(problem, world.PROGRAM, GpuLandscape()))
    assert alone.matched_speedup is None
