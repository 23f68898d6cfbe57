"""Baselines: measured in processes of their own, kept as files, matched by accuracy."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import pytest
import torch

from archives.evaluation import DeviceFingerprint
from evaluator.referee.device import core_sets, fingerprint
from evokernel.baseline_file import load_baseline, save_baseline
from evokernel.baselines import (
    Baseline,
    ProblemBaseline,
    Setting,
    check_device,
    matched_speedup,
    settings_for,
    speedup_over,
    speedup_over_best,
    strictest_ratio,
    with_settings,
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
        progress=lambda _, each: done.append(each.id),
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


def here(*problems: Problem) -> Baseline:
    """A made-up baseline of this very host that knows some problems."""
    cores = core_sets()
    return Baseline(
        kind="cpu",
        device=fingerprint(cores.threads).name,
        threads=cores.threads,
        scale="custom",
        versions={"torch": torch.__version__},
        date="2026-01-01",
        problems=tuple(
            ProblemBaseline(
                key=each.key, level=each.level, id=each.id, name=each.name, settings=(DEFAULT,)
            )
            for each in problems
        ),
    )


def test_a_baseline_is_continued_where_it_ended() -> None:
    first, second = problem(1, "return torch.relu(x)"), problem(2, "return torch.exp(x)")
    known = here(first)
    told: list[tuple[int, int]] = []
    found = measure_baseline(
        [second, first],
        "cpu",
        ["eager"],
        effort=Effort(budget_s=0.02),
        known=known,
        progress=lambda everything, one: told.append((one.id, len(everything.problems))),
    )
    assert told == [(2, 2)], "what is there is not measured again, and each step could be saved"
    assert found.of(first) == known.of(first)
    new = found.of(second)
    assert new is not None
    assert new.latency_ms("eager") != DEFAULT.latency_ms
    assert found.date > known.date
    assert measure_baseline([first], "cpu", ["eager"], known=known) == known


def test_a_baseline_of_another_version_is_not_continued() -> None:
    told: list[int] = []
    with pytest.raises(ConfigError, match="to be continued was measured with torch 0"):
        measure_baseline(
            [problem(1, "return torch.relu(x)"), problem(2, "return torch.exp(x)")],
            "cpu",
            ["eager"],
            effort=Effort(budget_s=0.02),
            known=dataclasses.replace(here(), versions={"torch": "0.1"}),
            progress=lambda _, one: told.append(one.id),
        )
    assert told == [], "nothing of it would be saved"


def test_the_time_for_all_of_it_is_kept_and_what_is_not_done_is_left_out(tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    first, hanging, third = (
        problem(1, "return torch.relu(x)"),
        problem(2, f'open("{seen}", "w").write(str(os.getpid())); time.sleep(1000)'),
        problem(3, "return torch.exp(x)"),
    )
    known = here(first, third)
    start = time.monotonic()
    found = measure_baseline(
        [hanging, first, third],
        "cpu",
        ["eager"],
        effort=Effort(budget_s=0.02, limit_s=5.0),
        known=known,
        again=True,
    )
    assert time.monotonic() - start < 60
    assert found == known, "what was known of the others stays"
    if seen.exists():  # Else the machine was too busy to get as far.
        assert not Path("/proc", seen.read_text()).exists()


def test_processes_beside_each_other_take_turns_at_the_device(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    body = (
        f'file = open("{log}", "a"); file.write(f"{{os.getpid()}} +\\n"); file.flush(); '
        f'time.sleep(0.02); file.write(f"{{os.getpid()}} -\\n"); file.close(); return x + '
    )
    found = measure_baseline(
        [problem(number, f"{body}{number}") for number in (1, 2, 3)],
        "cpu",
        ["eager"],
        effort=Effort(budget_s=0.2, jobs=2),
    )
    assert [one.latency_ms("eager") is not None for one in found.problems] == [True] * 3
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len({pid for pid, _ in lines}) == 3
    for (before, begins), (after, ends) in zip(lines[::2], lines[1::2], strict=True):
        assert (begins, ends) == ("+", "-"), "a call began while another process was called"
        assert before == after


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


def test_a_setting_that_changes_nothing_is_not_beaten_twice() -> None:
    lucky = Setting(setting="eager_tf32", latency_ms=7.8, error=1e-6)
    assert matched_speedup(2.0, 1e-6, (DEFAULT, lucky)) == pytest.approx(2.0)
    faster = dataclasses.replace(lucky, latency_ms=7.0)
    assert matched_speedup(2.0, 1e-6, (DEFAULT, faster)) == pytest.approx(1.75)


def test_a_setting_of_unknown_error_has_to_be_beaten_and_a_failed_one_has_not() -> None:
    unknown = dataclasses.replace(TF32, error=None)
    assert matched_speedup(2.0, 1e-9, (DEFAULT, unknown)) == pytest.approx(0.25)
    failed = dataclasses.replace(TF32, latency_ms=None)
    assert matched_speedup(2.0, 1e-2, (DEFAULT, failed)) == pytest.approx(2.0)


def test_of_the_most_accurate_settings_the_fastest_stands_for_a_more_accurate_candidate() -> None:
    # Float32 summed in two orders: neither is the more accurate one.
    slow = Setting(setting="eager_strict", latency_ms=8.0, error=1e-6)
    fast = Setting(setting="eager", latency_ms=4.0, error=1.8e-6)
    assert matched_speedup(2.0, 1e-8, (fast, slow, TF32)) == pytest.approx(2.0)
    assert strictest_ratio((fast, slow, TF32)) == pytest.approx(1.0)


def test_without_eager_at_the_defaults_nothing_is_matched() -> None:
    assert matched_speedup(2.0, 1e-6, (STRICT, TF32)) is None
    assert matched_speedup(2.0, 1e-6, ()) is None
    assert speedup_over("compile", 2.0, (COMPILED,)) is None


def test_compiled_torch_is_compared_through_the_default() -> None:
    assert speedup_over("compile", 2.0, SETTINGS) == pytest.approx(1.0)
    assert speedup_over("max_autotune", 2.0, SETTINGS) is None


def test_the_best_of_torch_is_known_where_all_of_it_was_measured() -> None:
    tuned = Setting(setting="max_autotune", latency_ms=5.0, error=1e-6)
    assert speedup_over_best(2.0, (*SETTINGS, tuned)) == pytest.approx(1.0)
    assert speedup_over_best(2.0, SETTINGS) is None
    slow = dataclasses.replace(COMPILED, latency_ms=90.0)
    assert speedup_over_best(2.0, (DEFAULT, slow, tuned)) == pytest.approx(1.25)


def test_new_settings_join_in_their_order_and_replace_old_ones() -> None:
    known = ProblemBaseline(key="k", level=1, id=1, name="Matmul", settings=(COMPILED, DEFAULT))
    faster = dataclasses.replace(COMPILED, latency_ms=3.0)
    joined = with_settings(known, (TF32, faster))
    assert joined.settings == (DEFAULT, TF32, faster)


def test_packages_and_modules_may_state_the_version_of_torch_differently() -> None:
    built = dataclasses.replace(BASELINE, versions={**BASELINE.versions, "torch": "2.11.0+cu130"})
    check_device(built, GPU)


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
