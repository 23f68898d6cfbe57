"""`evokernel baseline`, and the reports that use its file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from archives.records import RunCounts
from evaluator.referee.device import core_sets, fingerprint
from evokernel.baseline_file import load_baseline, save_baseline
from evokernel.baseline_shelf import baseline_for, own_folder
from evokernel.baselines import Baseline, ProblemBaseline, Setting
from evokernel.cli.main import build_app
from evokernel.cli.reading import console
from evokernel.cli.report import print_report
from evokernel.fast_p import Score, summarise
from evokernel.lights import light_on
from evokernel.report import Best, ProblemReport, Report
from evokernel.report_json import report_to_json
from problems.catalogue import load_level
from problems.problem import Scale
from problems.trace import trace
from tests.evokernel.conftest import DEVICE, PROBLEMS, evaluation


def call(*words: object) -> Result:
    return CliRunner().invoke(build_app(str(words[0])), [str(word) for word in words])


def as_json(*words: object) -> Any:  # noqa: ANN401 - JSON
    done = call(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def settings(eager_ms: float, strict_ms: float) -> tuple[Setting, ...]:
    return (
        Setting(setting="eager", latency_ms=eager_ms, error=3e-4),
        Setting(setting="eager_strict", latency_ms=strict_ms, error=1e-7),
        Setting(setting="compile", latency_ms=eager_ms / 2, error=3e-4),
    )


@pytest.fixture
def cpu_file(tmp_path: Path) -> Path:
    """A baseline of the device that the small run was measured on."""
    path = tmp_path / "cpu.json"
    known = Baseline(
        kind="cpu",
        device=DEVICE.name,
        threads=DEVICE.threads,
        scale="small",
        versions=dict(DEVICE.versions),
        date="2026-11-30",
        problems=tuple(
            ProblemBaseline(
                key=problem.key,
                level=problem.level,
                id=problem.id,
                name=problem.name,
                settings=settings(2.0, 3.0),
            )
            for problem in PROBLEMS[:3]
        ),
    )
    save_baseline(known, path)
    return path


def test_the_command_measures_writes_and_prints_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    words = ("baseline", "--problems", "19", "--settings", "eager", "--seconds", 0.05)
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert "1/19 ReLU: eager " in done.stderr
    assert "1/19 ReLU" in done.stdout
    (path,) = own_folder().iterdir()
    assert f"1 of 1 times, kept in {path}" in done.stderr
    found = load_baseline(path)
    (relu,) = load_level(1, Scale.SMALL, [19])
    known = found.of(relu)
    assert known is not None
    assert (known.latency_ms("eager") or 0) > 0
    assert found.scale == "small"
    device = fingerprint(core_sets().threads)
    assert baseline_for(device, [relu]) == found, "runs on this device find it by themselves"
    again = call(*words, "--resume")
    assert again.exit_code == 0, again.output
    assert "1/19 ReLU: eager " not in again.stderr, "what is there is not measured again"
    assert load_baseline(path) == found
    copied = tmp_path / "copied.json"
    copied.write_bytes(path.read_bytes())
    assert call(*words, "--resume", "--out", copied).exit_code == 0
    assert load_baseline(copied) == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--settings", "eager,magic"], "there is no 'magic' on this device: expected some of"),
        (["--out", "/nowhere/x.json"], "there is no folder /nowhere: make it first"),
        (["--problems", "101"], "level 1 has no problem 101"),
    ],
)
def test_the_users_mistakes_are_one_sentence(words: list[str], sentence: str) -> None:
    done = call("baseline", *words)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_report_matches_accuracy_and_shows_compiled_torch(
    small_run: Path, cpu_file: Path
) -> None:
    report = as_json("report", small_run, "--baseline", cpu_file)
    verified, searched, reference = report["problems"][:3]
    # The kernels' error of 1e-7 is below that of eager: strict eager, 1.5 times slower, counts.
    assert verified["speedup"] == 2.0
    assert verified["matched_speedup"] == pytest.approx(3.0)
    assert verified["compile_speedup"] == pytest.approx(1.0)
    assert verified["max_autotune_speedup"] is None
    assert searched["matched_speedup"] == pytest.approx(2.25)
    assert reference["speedup"] == 1.0
    assert report["problems"][6]["matched_speedup"] == 1.5, "without a baseline: the run's own"
    assert report["baseline"]["date"] == "2026-11-30"
    assert report["matched"]["fast_p_sure"]["2"] == pytest.approx(1 / 6)
    assert report["fast_p_sure"]["2"] == 0
    text = call("report", small_run, "--baseline", cpu_file).stdout
    assert "compiled" in text
    assert "autotuned" not in text, "nothing was measured of it"
    assert "baseline of 2026-11-30, torch 2.13.0" in text


def test_a_report_refuses_the_baseline_of_another_device(small_run: Path, cpu_file: Path) -> None:
    data = json.loads(cpu_file.read_text())
    cpu_file.write_text(json.dumps({**data, "device": "Other CPU"}))
    done = call("report", small_run, "--baseline", cpu_file)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "measured with device Other CPU, the run with Test CPU" in done.stderr


def test_the_ceiling_caps_what_fast_p_can_be(small_run: Path) -> None:
    scores = [
        Score(speedup=1.2, cap=1.5),
        Score(speedup=1.0, cap=1.04),
        Score(speedup=3.0, cap=4.0),
        Score(),
    ]
    summary = summarise(scores, 0.0)
    assert summary.fast_p_attainable == {
        0.0: 1.0, 0.5: 1.0, 0.8: 1.0, 1.0: 1.0, 1.05: 0.75, 1.5: 0.5, 2.0: 0.5,
    }  # fmt: skip
    assert set(summarise([Score(speedup=1.2)], 0.0).fast_p_attainable.values()) == {None}
    report = as_json("report", small_run)
    assert report["fast_p_attainable"]["1"] is None
    assert report["problems"][0]["speedup_cap"] is None


def test_the_share_of_the_ceiling_and_its_cap_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    measured = dataclasses.replace(evaluation(2.0, verified=True), roofline_share=0.8)
    line = ProblemReport(
        problem=PROBLEMS[0],
        status="verified",
        best=Best(candidate="c" * 64, evaluation=measured, is_reference=False),
    )
    assert line.cap == pytest.approx(2.5)
    scores = [Score(speedup=2.0, low=1.9, own_kernel_share=1.0, cap=2.5)]
    report = Report(
        name="gpu",
        state="finished",
        scale="official",
        device=DEVICE,
        noise_floor=0.01,
        noisy=False,
        referee_version="1",
        counts=RunCounts(),
        problems=(line,),
        operators=(),
        standard=summarise(scores, 0.01),
        matched=summarise(scores, 0.01),
    )
    print_report(report, console())
    shown = capsys.readouterr().out
    assert "80%" in shown
    assert "2.50x" in shown
    assert "at the ceiling, standard" in shown


def test_without_a_baseline_the_headline_is_about_torch_at_its_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = evaluation(2.0, verified=True)
    line = ProblemReport(
        problem=PROBLEMS[0],
        status="verified",
        best=Best(candidate="c" * 64, evaluation=measured, is_reference=False),
    )
    report = Report(
        name="gpu",
        state="finished",
        scale="official",
        device=dataclasses.replace(DEVICE, kind="cuda", name="NVIDIA H100", threads=0),
        noise_floor=0.01,
        noisy=False,
        referee_version="1",
        counts=RunCounts(),
        problems=(line,),
        operators=(),
        standard=summarise([Score(speedup=2.0, low=1.9, own_kernel_share=1.0)], 0.01),
        matched=None,
    )
    print_report(report, console())
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 1 problems surely faster" in shown
    assert "against eager torch at its defaults" in shown
    assert "fast_p, matched" not in shown
    assert report_to_json(report)["matched"] is None


@pytest.fixture
def gpu_file(tmp_path: Path) -> Path:
    """A baseline of an H200 with one problem."""
    (relu,) = load_level(1, Scale.OFFICIAL, [19])
    path = tmp_path / "h200.json"
    known = Baseline(
        kind="cuda",
        device="NVIDIA H200",
        threads=0,
        scale="official",
        versions={"torch": "2.11.0"},
        date="2026-11-30",
        problems=(
            ProblemBaseline(
                key=relu.key, level=1, id=19, name=relu.name, settings=settings(3.03, 3.03)
            ),
        ),
    )
    save_baseline(known, path)
    return path


def test_the_roofline_gives_the_cap_on_speedup(gpu_file: Path) -> None:
    words = ("roofline", "--gpu", "H200", "--problems", "19,20", "--baseline", gpu_file)
    relu, leaky = as_json(*words)
    assert relu["eager_ms"] == 3.03
    assert relu["speedup_cap"] == pytest.approx(3.03 / relu["sol_ms"])
    assert leaky["eager_ms"] is None
    assert leaky["speedup_cap"] is None
    assert "1.13x" in call(*words).stdout


def test_the_roofline_refuses_the_baseline_of_another_gpu(gpu_file: Path) -> None:
    done = call("roofline", "--gpu", "H100", "--problems", "19", "--baseline", gpu_file)
    assert done.exit_code == 2
    assert "was measured on NVIDIA H200, --gpu asks for H100" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_share_of_the_datasheets_bytes_is_that_of_problems_bound_by_memory() -> None:
    gpu = dataclasses.replace(DEVICE, kind="cuda", name="NVIDIA H200")

    def line(id: int, latency_ms: float) -> ProblemReport:
        (problem,) = load_level(1, Scale.OFFICIAL, [id])
        measured = dataclasses.replace(evaluation(2.0, verified=True), latency_ms=latency_ms)
        return ProblemReport(
            problem=problem,
            status="verified",
            best=Best(candidate="c" * 64, evaluation=measured, is_reference=False),
            light=light_on(gpu, problem, trace(problem.source)),
        )

    relu, product = line(19, 3.2), line(1, 1.0)
    assert relu.light is not None
    assert product.light is not None
    assert (relu.light.bound, product.light.bound) == ("memory", "compute")
    # 6.44 GB read and as many written, at 4,800 GB/s.
    assert relu.bytes_share == pytest.approx(2 * 6.4424 / 4.8 / 3.2, rel=1e-3)
    assert product.bytes_share is None
    assert light_on(DEVICE, relu.problem, trace(relu.problem.source)) is None
    assert light_on(dataclasses.replace(gpu, name="Some GPU"), relu.problem, None) is None
