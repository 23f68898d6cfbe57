"""Verdicts on times that a CPU does not allow, and what calibration makes of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archives.evaluation import DeviceFingerprint, Interval, Status
from archives.rates import Rates
from evaluator.referee.ceiling import Finding
from evaluator.referee.cpu import CpuStation
from evaluator.referee.cuda.possible import SpeedOfLight
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.possible import Limits, cache_bytes, cpu_limits, record
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from problems.catalogue import load_level
from problems.graph import OperatorGraph
from problems.problem import Domain, DomainKind, Problem, Scale
from problems.trace import trace
from tests.evaluator.referee_cases import judge, new_referee, problem_of

CPU = DeviceFingerprint(kind="cpu", name="A CPU", uuid="c", threads=2, versions={}, vector_bits=256)
RATES = Rates(read_gbps=20, write_gbps=10, copy_gbps=15, fp32=0.1, launch_ms=0.002)
H200_RATES = Rates(
    read_gbps=4534, write_gbps=4670, copy_gbps=4251, fp32=51.2, tf32=430, fp16=840, launch_ms=0.0035
)


def relu(scale: Scale) -> tuple[Problem, OperatorGraph]:
    [problem] = load_level(1, scale, [19])
    return problem, trace(problem.source)


def measured(latency_ms: float, reference_ms: float = 3.0) -> Ratio:
    speedup = reference_ms / latency_ms
    return Ratio(
        speedup=speedup,
        interval=Interval(low=speedup, high=speedup),
        latency_ms=latency_ms,
        reference_ms=reference_ms,
        num_blocks=20,
        width=1.0,
    )


def calibrated(cached: float) -> Limits:
    """The CPU with a last-level cache of so many bytes, measured at 20 GB/s at best."""
    limits = cpu_limits(CPU, cached)
    limits.calibrate(RATES)
    return limits


def test_what_a_cpu_cannot_load_and_store_in_time_is_impossible_whatever_its_caches_hold() -> None:
    problem, graph = relu(Scale.SMALL)
    limits = cpu_limits(CPU)
    assert limits.require_possible(problem, graph, measured(0.3)).roofline_share is None
    with pytest.raises(CandidateFailed) as caught:
        limits.require_possible(problem, graph, measured(0.003))
    assert (caught.value.status, caught.value.reason) == (Status.IMPOSSIBLE, "faster_than_memory")
    assert "A CPU can move the" in caught.value.log
    assert "inf" not in caught.value.log


def test_no_call_is_faster_than_a_call() -> None:
    problem, graph = relu(Scale.TINY)
    with pytest.raises(CandidateFailed) as caught:
        cpu_limits(CPU).require_possible(problem, graph, measured(0.0001))
    assert caught.value.reason == "faster_than_a_call"
    assert "0.10 us, less than the 0.2 us of a call" in caught.value.log


def test_a_cpu_is_held_to_its_memory_where_the_caches_are_too_small() -> None:
    problem, graph = relu(Scale.SMALL)
    moved_ms = 2 * 8e6 / 20e9 * 1e3  # at the measured rate, about
    small = calibrated(cached=32e3)
    with pytest.raises(CandidateFailed):
        small.require_possible(problem, graph, measured(0.3 * moved_ms))
    share = small.require_possible(problem, graph, measured(2 * moved_ms)).roofline_share
    assert share is not None
    assert 0.3 < share < 1.0
    large = calibrated(cached=64e6)
    cached = large.require_possible(problem, graph, measured(0.3 * moved_ms))
    assert cached.roofline_share is None


def test_a_share_of_the_ceiling_is_known_once_the_gpu_was_calibrated() -> None:
    problem, graph = relu(Scale.OFFICIAL)
    light = SpeedOfLight("NVIDIA H200")
    assert light.require_possible(problem, graph, measured(3.2, 6.0)).roofline_share is None
    light.calibrate(H200_RATES)
    share = light.require_possible(problem, graph, measured(3.2, 6.0)).roofline_share
    assert share == pytest.approx(0.94, abs=0.01)
    # A device that was measured to be faster than its row is not called impossible for it.
    light.calibrate(replace(H200_RATES, read_gbps=9000, copy_gbps=9000, write_gbps=9000))
    light.require_possible(problem, graph, measured(1.5, 6.0))


TRIANGLES = problem_of(
    """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, A, B):
        y = torch.triu(A @ B)
        for _ in range(4000):
            y = y.abs()
        return y


def get_inputs():
    A = torch.rand(96, 96)
    B = torch.rand(96, 96)
    for matrix in (A, B):
        matrix.triu_()
    return [A, B]


def get_init_inputs():
    return []
"""
)
TRIANGULAR = [{"kind": "upper_triangular", "upper": None}] * 2
"""As a session finds them."""


def test_what_a_session_finds_in_the_inputs_counts_as_what_a_catalogue_states() -> None:
    """0.214 ms is an honest time of 1/14 on an H200; as a file of its own it states no domains."""
    [stated] = load_level(1, Scale.OFFICIAL, [14])
    graph = trace(stated.source)
    own = replace(stated, domains=())
    light = SpeedOfLight("NVIDIA H200")
    light.calibrate(H200_RATES)
    share = light.require_possible(own, graph, measured(0.214), TRIANGULAR).roofline_share
    assert share == light.require_possible(stated, graph, measured(0.214)).roofline_share
    assert share is not None
    assert share < 0.3
    # Without them the ceiling would be that of a whole product, which no share is given of.
    without = SpeedOfLight("NVIDIA H200")
    without.calibrate(H200_RATES)
    wrong = without.require_possible(own, graph, measured(0.214))
    assert "above_ceiling" in wrong.flags
    assert wrong.roofline_share is None


def test_an_inferred_triangle_may_be_a_diagonal_of_which_a_program_reads_nothing_else() -> None:
    """Rows of B scaled by a diagonal: B and the result on an H200 take 0.447 ms."""
    source = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, D, B):
        return D @ B


def get_inputs():
    return [torch.diag(torch.rand(16384)), torch.rand(16384, 16384)]


def get_init_inputs():
    return []
"""
    problem = problem_of(source)
    graph = trace(source)
    honest = measured(0.47, reference_ms=20.0)
    kinds = ("upper_triangular", "real")
    found = [{"kind": kind, "upper": None} for kind in kinds]
    light = SpeedOfLight("NVIDIA H200")
    light.require_possible(problem, graph, honest, found)
    stated = problem_of(source, domains=[Domain(kind=DomainKind(kind)) for kind in kinds])
    with pytest.raises(CandidateFailed):
        light.require_possible(stated, graph, honest)


def test_a_verdict_takes_the_domains_of_its_session_and_tells_what_is_suspicious(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    require_possible = Limits.require_possible

    def watched(limits: Limits, *arguments: Any) -> Finding:  # noqa: ANN401
        seen.append(arguments[3])
        return require_possible(limits, *arguments)

    monkeypatch.setattr(Limits, "require_possible", watched)
    loop = """        for _ in range(4000):
            y = y.abs()
"""
    source = TRIANGLES.source.replace("class Model(", "class ModelNew(")
    referee = new_referee()
    referee.start()
    try:
        verdict = judge(referee, TRIANGLES, source.replace(loop, "        y = y.abs()\n"))
    finally:
        referee.close()
    assert verdict.status is Status.OK, verdict.log
    assert [each["kind"] for each in seen[-1]] == ["upper_triangular"] * 2
    assert "Speed of light: more than 10 times as fast as the reference" in verdict.log


def test_what_is_suspicious_follows_what_is_known_of_the_device() -> None:
    findings = Findings(conditions="Clock 1,980 MHz.")
    record(Finding(flags=("extreme_speedup",), roofline_share=0.5), findings)
    assert findings.roofline_share == 0.5
    assert findings.conditions == (
        "Clock 1,980 MHz. Speed of light: more than 10 times as fast as the reference."
    )
    plain = Findings()
    record(Finding(roofline_share=0.4), plain)
    assert plain.conditions == ""


def test_a_host_tells_its_largest_cache(tmp_path: Path) -> None:
    for number, text in enumerate(("48K", "2048K", "32M")):
        file = tmp_path / f"cpu0/cache/index{number}/size"
        file.parent.mkdir(parents=True)
        file.write_text(text + "\n")
    assert cache_bytes(tmp_path) == 32 << 20
    assert cache_bytes(tmp_path / "nothing") == math.inf


def test_a_worker_calibrates_this_host_and_what_is_known_is_not_measured_again() -> None:
    station = CpuStation()
    try:
        rates = station.calibrate()
        assert rates is not None
        assert 0.1 < rates.copy_gbps < 10_000
        assert rates.tf32 is None
        assert station.calibrate(RATES) is RATES
    finally:
        station.close()
        station.spawner.close()
