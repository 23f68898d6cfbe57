"""What is seen of a GPU's clock, heat and other users; by a stand-in for NVIDIA's library."""

from __future__ import annotations

import ctypes
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.cuda.monitor import Conditions, Look, Monitor, open_monitor, summary
from evaluator.referee.cuda.nvml import Nvml, NvmlError
from evaluator.referee.effort import SEARCH_EFFORT
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.verdict import Findings
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import open_arena

OURS, THEIRS = 4711, 99


def value_of(reference: Any) -> Any:  # noqa: ANN401 - what `ctypes.byref` was made from
    return reference._obj


@dataclass
class Library:
    """Answers as the management library does."""

    clock: int = 1980
    temperature: int = 41
    reasons: int = 0
    contexts: tuple[int, ...] = (OURS, THEIRS)
    shares: dict[int, int] = field(default_factory=dict)
    knows: bool = True

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid: bytes, device: Any) -> int:  # noqa: ANN401
        value_of(device).value = 1
        return 0 if self.knows and uuid == b"GPU-aaa" else 6

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: Any, found: Any) -> int:  # noqa: ANN401
        value_of(found).value = self.reasons
        return 0 if device else 1

    def nvmlDeviceGetClockInfo(self, device: Any, kind: int, found: Any) -> int:  # noqa: ANN401
        value_of(found).value = self.clock
        return 0 if device and kind == 1 else 1

    def nvmlDeviceGetTemperature(self, device: Any, sensor: int, found: Any) -> int:  # noqa: ANN401
        value_of(found).value = self.temperature
        return 0 if device and sensor == 0 else 1

    def nvmlDeviceGetComputeRunningProcesses_v3(
        self,
        device: Any,  # noqa: ANN401
        count: Any,  # noqa: ANN401
        found: Any,  # noqa: ANN401
    ) -> int:
        for at, pid in enumerate(self.contexts):
            found[at].pid = pid
        value_of(count).value = len(self.contexts)
        return 0 if device else 1

    def nvmlDeviceGetProcessUtilization(
        self,
        device: Any,  # noqa: ANN401
        found: Any,  # noqa: ANN401
        count: Any,  # noqa: ANN401
        since: ctypes.c_ulonglong,
    ) -> int:
        if not self.shares:
            return 6
        for at, (pid, share) in enumerate(self.shares.items()):
            found[at].pid, found[at].sm = pid, share
            found[at].at_us = max(int(time.time() * 1e6), since.value + 1)
        value_of(count).value = len(self.shares)
        return 0 if device else 1


def monitor_of(library: Library) -> Monitor:
    monitor = Monitor(Nvml("GPU-aaa", library), own=lambda: [OURS])
    monitor.begin()
    return monitor


def test_a_quiet_gpu_disturbs_nothing_and_is_described() -> None:
    library = Library()
    monitor = monitor_of(library)
    assert not monitor.disturbed()
    library.clock, library.temperature = 1965, 43
    assert not monitor.disturbed()
    text = summary(monitor.conditions)
    assert "1965 to 1980" in text
    assert "up to 43 C" in text
    assert "0 of 2 blocks dropped" in text
    assert "no other process seen" in text


@pytest.mark.parametrize("reasons", [0x8, 0x20, 0x40, 0x80], ids=hex)
def test_a_gpu_that_is_slowed_is_seen(reasons: int) -> None:
    library = Library(reasons=reasons)
    monitor = monitor_of(library)
    assert monitor.disturbed()
    library.reasons = 0x4
    assert not monitor.disturbed(), "the power cap is a steady state"
    assert "1 of 2 blocks dropped" in summary(monitor.conditions)


def test_another_program_that_uses_the_gpu_is_seen() -> None:
    library = Library(shares={OURS: 90, THEIRS: 40})
    monitor = monitor_of(library)
    assert monitor.disturbed()
    library.shares = {OURS: 90, THEIRS: 1}
    assert not monitor.disturbed(), "a context that is idle disturbs nobody"
    assert f"processes [{THEIRS}] of others seen" in summary(monitor.conditions)


def test_processes_that_are_numbered_otherwise_are_held_against_nobody() -> None:
    monitor = monitor_of(Library(contexts=(1, 2), shares={1: 90, 2: 90}))
    assert not monitor.disturbed()
    assert "other processes not visible" in summary(monitor.conditions)


def test_a_clock_that_falls_is_seen() -> None:
    library = Library()
    monitor = monitor_of(library)
    assert not monitor.disturbed()
    assert not monitor.disturbed()
    library.clock = 1200
    assert monitor.disturbed()


def test_each_timing_begins_anew() -> None:
    monitor = monitor_of(Library(reasons=0x8))
    monitor.disturbed()
    monitor.begin()
    assert monitor.conditions == Conditions(looks=(), dropped=0)
    assert summary(monitor.conditions) == ""


def test_a_gpu_that_the_library_does_not_know_is_an_error() -> None:
    with pytest.raises(NvmlError, match="nvmlDeviceGetHandleByUUID fails with code 6"):
        Nvml("GPU-bbb", Library())


def test_a_library_that_lacks_a_call_is_an_error() -> None:
    with pytest.raises(NvmlError, match="lacks nvmlInit_v2"):
        Nvml("GPU-aaa", object())


def test_without_the_library_there_is_no_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert open_monitor("GPU-aaa") is None


def test_a_timing_that_others_disturb_all_along_is_tried_again_and_comes_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("evaluator.referee.cuda.clocks.ABSOLUTE_MS", 50.0)
    monitor = monitor_of(Library(shares={OURS: 50, THEIRS: 50}))
    source = SOFTMAX.source.replace("class Model(", "class ModelNew(")
    request = EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, source))
    with open_arena(SOFTMAX, tmp_path, monitor=monitor) as (arena, _, _):
        with pytest.raises(CandidateFailed) as failure:
            climb(arena, request, Findings())
        conditions = arena.conditions
    assert failure.value.status is Status.UNSTABLE
    assert conditions.dropped == SEARCH_EFFORT.blocks * SEARCH_EFFORT.rounds


def test_looks_compare_by_value() -> None:
    look = Look(clock_mhz=1980, temperature_c=40, slowed=False, foreign=())
    assert "1980 to 1980" in summary(Conditions(looks=(look, look), dropped=0))
