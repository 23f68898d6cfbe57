"""Baselines: measured in processes of their own, kept as files, matched by accuracy."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from archives.evaluation import DeviceFingerprint
from evokernel.baseline_file import load_baseline, save_baseline
from evokernel.baselines import (
    Baseline,
    ProblemBaseline,
    Setting,
    check_device,
    matched_speedup,
    settings_for,
    speedup_over,
)
from evokernel.yardsticks import Effort, measure_baseline
from problems.errors import ConfigError
from problems.problem import Problem, Scale

SOURCE = """\
import ctypes
import os
import time

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        {body}


def get_inputs():
    return [torch.rand(256, 256)]


def get_init_inputs():
    return []
"""

STRICT = Setting(setting="eager_strict", latency_ms=8.0, error=1e-6)
DEFAULT = Setting(setting="eager", latency_ms=8.0, error=1e-6)
TF32 = Setting(setting="eager_tf32", latency_ms=1.0, error=3e-4)
COMPILED = Setting(setting="compile", latency_ms=4.0, error=1e-6)
SETTINGS = (DEFAULT, STRICT, TF32, COMPILED)

GPU = DeviceFingerprint(
    kind="cuda",
    name="NVIDIA H200",
    uuid="gpu-0",
    threads=0,
    versions={"torch": "2.11.0", "driver": "580.1"},
)
BASELINE = Baseline(
    kind="cuda",
    device="NVIDIA H200",
    threads=0,
    scale="official",
    versions={"torch": "2.11.0", "driver": "580.1", "cuda": "13.0"},
    date="2026-11-30",
    problems=(ProblemBaseline(key="k", level=1, id=1, name="Matmul", settings=SETTINGS),),
)


def problem(number: int, body: str) -> Problem:
    return Problem(
        level=0,
        id=number,
        name=f"Case {number}",
        family="test",
        scale=Scale.CUSTOM,
        source=SOURCE.format(body=body),
    )


def test_a_crash_and_a_hang_cost_their_own_rows_alone(capfd: pytest.CaptureFixture[str]) -> None:
    problems = [
        problem(1, 'print("noise"); return torch.softmax(x, 1)'),
        problem(2, "ctypes.string_at(0)"),
        problem(3, "time.sleep(1000)"),
        problem(4, 'raise ValueError("sizes do not fit")'),
        problem(5, "return torch.relu(x)"),
    ]
    done: list[int] = []
    found = measure_baseline(
        problems,
        "cpu",
        ["eager"],
        effort=Effort(budget_s=0.05, deadline_s=4.0),
        progress=lambda each: done.append(each.id),
    )
    assert done == [1, 2, 3, 4, 5]
    softmax, crash, hang, broken, relu = (each.settings[0] for each in found.problems)
    for right in (softmax, relu):
        assert right.latency_ms is not None
        assert 0.001 < right.latency_ms < 1000
        assert right.calls >= 5
        assert right.log == ""
    assert softmax.error is not None
    assert 1e-9 < softmax.error < 1e-5
    assert relu.error == 0.0
    assert crash.latency_ms is None
    assert "signal 11" in crash.log
    assert hang.latency_ms is None
    assert hang.log == "timeout while computing in float64: not done after 4 s"
    assert "sizes do not fit" in broken.log
    assert (found.kind, found.scale) == ("cpu", "custom")
    assert found.threads >= 1
    assert found.device
    assert {"python", "torch"} <= found.versions.keys()
    assert found.problems[0].key == problems[0].key
    assert capfd.readouterr().out == "", "what a problem prints is no answer"


@pytest.mark.slow
def test_a_compiled_problem_is_right_and_its_build_is_no_part_of_the_time() -> None:
    found = measure_baseline(
        [problem(1, "return torch.softmax(x.sin() + x.cos(), 1)")],
        "cpu",
        settings_for("cpu"),
        effort=Effort(budget_s=0.1, deadline_s=240.0),
    )
    eager, compiled = found.problems[0].settings
    assert compiled.log == ""
    assert compiled.latency_ms is not None
    assert compiled.build_s > 0.1 > compiled.latency_ms / 1e3
    assert compiled.error is not None
    assert eager.error is not None
    assert compiled.error < 10 * eager.error


@pytest.mark.parametrize(
    ("error", "matched"),
    [
        (1e-6, 2.0),  # as accurate as float32: float32 is what it has to beat
        (6e-7, 2.0),  # a little better than eager on its inputs is the same
        (1e-9, 2.0),  # better than all: the most accurate one
        (1e-4, 2.0),  # TF32 is less accurate
        (2.9e-4, 0.25),  # as accurate as TF32 only: TF32 is eight times faster
        (1e-2, 0.25),
        (None, 0.25),
    ],
)
def test_lower_precision_never_poses_as_a_better_kernel(
    error: float | None, matched: float
) -> None:
    assert matched_speedup(2.0, error, SETTINGS) == pytest.approx(matched)


def test_strict_eager_counts_where_the_default_is_less_accurate() -> None:
    convolution = (
        Setting(setting="eager", latency_ms=1.0, error=3e-4),
        Setting(setting="eager_strict", latency_ms=4.0, error=1e-6),
    )
    assert matched_speedup(0.5, 1e-6, convolution) == pytest.approx(2.0)
    assert matched_speedup(0.5, 3e-4, convolution) == pytest.approx(0.5)


def test_a_setting_of_unknown_error_has_to_be_beaten_and_a_failed_one_has_not() -> None:
    unknown = dataclasses.replace(TF32, error=None)
    assert matched_speedup(2.0, 1e-9, (DEFAULT, unknown)) == pytest.approx(0.25)
    failed = dataclasses.replace(TF32, latency_ms=None)
    assert matched_speedup(2.0, 1e-2, (DEFAULT, failed)) == pytest.approx(2.0)


def test_without_eager_at_the_defaults_nothing_is_matched() -> None:
    assert matched_speedup(2.0, 1e-6, (STRICT, TF32)) is None
    assert matched_speedup(2.0, 1e-6, ()) is None
    assert speedup_over("compile", 2.0, (COMPILED,)) is None


def test_compiled_torch_is_compared_through_the_default() -> None:
    assert speedup_over("compile", 2.0, SETTINGS) == pytest.approx(1.0)
    assert speedup_over("max_autotune", 2.0, SETTINGS) is None


def test_a_file_gives_back_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "h200.json"
    save_baseline(BASELINE, path)
    assert load_baseline(path) == BASELINE
    written = json.loads(path.read_text())
    assert (written["device"], written["date"]) == ("NVIDIA H200", "2026-11-30")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no baseline: Invalid JSON"),
        ("{}", "is no baseline: Field required at format"),
        ('{"format": 9}', "is no baseline: Field required at kind"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        load_baseline(path)
    assert "\n" not in str(caught.value)


def test_another_format_and_unknown_keys_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    save_baseline(BASELINE, path)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "format": 2}))
    with pytest.raises(ConfigError, match="has format 2, expected 1"):
        load_baseline(path)
    path.write_text(json.dumps({**data, "extra": 1}))
    with pytest.raises(ConfigError, match=r"Extra inputs are not permitted at extra"):
        load_baseline(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_baseline(tmp_path / "missing.json")


def test_numbers_of_two_devices_never_mix() -> None:
    check_device(BASELINE, GPU)
    others = {
        "device": dataclasses.replace(GPU, name="NVIDIA H100"),
        "driver": dataclasses.replace(GPU, versions={"torch": "2.11.0", "driver": "590.2"}),
        "torch": dataclasses.replace(GPU, versions={"torch": "2.12.0", "driver": "580.1"}),
    }
    for name, other in others.items():
        with pytest.raises(ConfigError, match=f"measured with {name} ") as caught:
            check_device(BASELINE, other)
        assert "\n" not in str(caught.value)


def test_on_a_cpu_the_threads_count() -> None:
    cpu = DeviceFingerprint(kind="cpu", name="CPU", uuid="c", threads=2, versions={"torch": "2"})
    known = dataclasses.replace(
        BASELINE, kind="cpu", device="CPU", threads=2, versions={"torch": "2"}
    )
    check_device(known, cpu)
    with pytest.raises(ConfigError, match="threads 1"):
        check_device(dataclasses.replace(known, threads=1), cpu)
