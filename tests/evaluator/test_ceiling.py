"""The verdict of the roofline: nothing honest is impossible, nothing impossible is believed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from archives.rates import Rates
from evaluator.referee.ceiling import ceiling_ms, corrected, hold_against_light, told, told_in
from evaluator.referee.hardware import all_devices, find_device
from evaluator.referee.roofline import HARD_SLACK, Light, Work, light, work_of
from problems.catalogue import load_level
from problems.problem import Scale
from problems.trace import trace

TIMES = json.loads((Path(__file__).parent / "h200_times.json").read_text())["rows"]
"""Honest times on an H200: eager, compiled and max-autotune, of another program than ours."""

H200 = find_device("NVIDIA H200")
RATES = Rates(
    read_gbps=4534, write_gbps=4670, copy_gbps=4251, fp32=51.2, tf32=430, fp16=840, launch_ms=0.0035
)
"""As calibrated on an H200 (driver 580.159.04, torch 2.11.0)."""

STORED = {
    str(path.parent.name): Rates.from_json(json.loads(path.read_text())["rates"])
    for path in (Path(__file__).parents[2] / "benchmarks" / "results").glob(
        "level1-h200*/report.json"
    )
} | {"level1-h200-baseline.md": RATES}
"""As calibrated on H200s for the runs that were committed."""

MOVING = Work(
    read_bytes=4_800_000_000, avoidable_bytes=0, write_bytes=4_800_000_000, flops=1_000_000
)
"""2 ms of memory on an H200."""


@cache
def work_at_official_scale(problem_id: int) -> Work:
    (problem,) = load_level(1, Scale.OFFICIAL, [problem_id])
    return work_of(trace(problem.source), problem.domains)


def recorded(row: dict[str, Any]) -> Work:
    """Return the work as it was recorded beside the times, for levels that are not bundled."""
    return Work(read_bytes=row["bytes"], avoidable_bytes=0, write_bytes=0, flops=row["flops"] or 0)


def bounds_of(row: dict[str, Any]) -> Light:
    work = work_at_official_scale(row["id"]) if row["level"] == 1 else recorded(row)
    return light(work, H200)


def test_no_honest_time_is_faster_than_light() -> None:
    assert len(TIMES) == 244
    for row in TIMES:
        bounds = bounds_of(row)
        for setting, ms in row["ms"].items():
            where = f"{row['level']}/{row['id']} {setting}: {ms} ms"
            assert bounds.hard_ms < ms, where
            assert bounds.sol_ms < ms, where
            finding = hold_against_light(ms, bounds, H200, reference_ms=row["ms"]["eager"])
            assert not finding.is_impossible, where
            assert "bound_invalid" not in finding.flags, where


def test_light_is_not_trivially_far_from_what_was_reached() -> None:
    shares = sorted(
        bounds_of(row).sol_ms / min(row["ms"].values()) for row in TIMES if row["level"] == 1
    )
    assert shares[50] > 0.5
    assert sum(share > 0.8 for share in shares) >= 25
    # Two thirds of the bound are hard: enough to catch a program that skips half of its work.
    hard = sorted(
        bounds_of(row).hard_ms / bounds_of(row).sol_ms for row in TIMES if row["level"] == 1
    )
    assert sum(share > 0.9 for share in hard) >= 50


@pytest.mark.parametrize("name", STORED)
def test_the_share_of_the_ceiling_is_at_most_the_whole(name: str) -> None:
    """Honest times of one H200 by the rates of any: 3 % of noise, and 5 % of shape in products.

    All these rates were calibrated with square products alone. Of as many operations a long sum
    takes 5 % less, as the times themselves show; that shape is calibrated since, and as no GPU was
    at hand then, rates with it are not among these.
    """
    shape = tf32_ms(1) / tf32_ms(17)
    assert 1.04 < shape < 1.05
    for row in TIMES:
        if row["level"] == 1:
            work = work_at_official_scale(row["id"])
            for setting, ms in row["ms"].items():
                share = ceiling_ms(work, H200, STORED[name]) / ms
                most = 1.03 * shape if setting == "eager_tf32" and work.flops else 1.03
                assert 0 < share <= most, f"1/{row['id']} {setting}: {share:.3f}"


def tf32_ms(problem_id: int) -> float:
    [row] = [each for each in TIMES if (each["level"], each["id"]) == (1, problem_id)]
    return float(row["ms"]["eager_tf32"])


def test_rates_of_several_runs_are_at_hand() -> None:
    assert {"level1-h200", "level1-h200-first"} < set(STORED)


def test_memory_reads_no_slower_than_it_writes() -> None:
    """A Triton loss of that run read 8.6 GB in 1.836 ms, 6 % faster than torch's sums."""
    share = ceiling_ms(work_at_official_scale(94), H200, STORED["level1-h200"]) / 1.836
    assert share == pytest.approx(1.011, abs=0.001)


def test_a_convolution_in_float16_is_below_the_ceiling() -> None:
    """1.07 ms for 1/69 on an H200, as accurate as torch's TF32; see decision 0018."""
    assert 0.5 < ceiling_ms(work_at_official_scale(69), H200, RATES) / 1.07 < 0.7


def test_skipping_half_of_the_bytes_is_impossible_and_said_in_numbers() -> None:
    finding = hold_against_light(1.0, light(MOVING, H200), H200, reference_ms=2.5)
    assert finding.is_impossible
    assert finding.reason == "faster_than_memory"
    assert "1.0000 ms" in finding.sentence
    assert "9,600.0 MB" in finding.sentence
    assert "4,800 GB/s" in finding.sentence


def test_a_time_below_a_launch_is_impossible_however_little_there_is_to_do() -> None:
    tiny = Work(read_bytes=64, avoidable_bytes=0, write_bytes=64, flops=0)
    finding = hold_against_light(0.0004, light(tiny, H200), H200)
    assert finding.reason == "faster_than_a_launch"
    assert "0.40 us" in finding.sentence


def test_the_hard_bound_leaves_room_for_clocks_and_for_what_the_cache_holds() -> None:
    bounds = light(MOVING, H200)
    assert bounds.hard_ms == pytest.approx(HARD_SLACK * (2.0 - 60e6 / 4800e6), rel=1e-6)
    assert not hold_against_light(bounds.hard_ms, bounds, H200).is_impossible


def test_operations_alone_never_reject() -> None:
    product = Work(read_bytes=4096, avoidable_bytes=0, write_bytes=4096, flops=2 * 8192**3)
    finding = hold_against_light(0.01, light(product, H200), H200)
    assert not finding.is_impossible
    assert "below_compute_bound" in finding.flags


def test_a_row_that_was_not_checked_never_rejects() -> None:
    estimated = [device for device in all_devices() if device.estimated]
    assert len(estimated) > 10
    for device in estimated:
        finding = hold_against_light(0.01, light(MOVING, device), device)
        assert not finding.is_impossible, device.name
        assert finding.flags[0] == "below_estimated_bound"


def test_a_reference_faster_than_light_shows_that_the_bound_is_wrong() -> None:
    finding = hold_against_light(1.0, light(MOVING, H200), H200, reference_ms=1.1)
    assert not finding.is_impossible
    assert finding.flags == ("bound_invalid",)


@pytest.mark.parametrize(
    ("ms", "reference_ms", "flags"),
    [
        (2.2, 2.5, ()),
        (2.02, 2.5, ("below_memory_bound",)),
        (2.2, 23.0, ("extreme_speedup",)),
    ],
)
def test_what_is_suspicious_is_flagged(
    ms: float, reference_ms: float, flags: tuple[str, ...]
) -> None:
    bounds = light(MOVING, H200)
    assert hold_against_light(ms, bounds, H200, reference_ms=reference_ms).flags == flags


def test_flags_are_told_in_a_sentence() -> None:
    assert told(()) == ""
    flags = ("below_memory_bound", "extreme_speedup")
    assert told(flags) == (
        "Speed of light: within 3 % of the device's full bandwidth, or above it; "
        "more than 10 times as fast as the reference."
    )


def test_what_was_told_is_found_in_a_log() -> None:
    sentence = told(("below_compute_bound", "above_ceiling"))
    assert told_in(f"1,980 MHz, 0 of 9 blocks dropped. {sentence}") == sentence
    assert told_in(f"{sentence} And more.") == sentence
    assert told_in("1,980 MHz, 0 of 9 blocks dropped.") == ""


def test_every_flag_has_words() -> None:
    cached = replace(H200, l2_mb=20_000)
    estimated = next(device for device in all_devices() if device.estimated)
    found = [
        hold_against_light(0.001, light(MOVING, cached), cached, rates=RATES, reference_ms=1.0),
        hold_against_light(0.01, light(MOVING, estimated), estimated),
        hold_against_light(1.0, light(MOVING, H200), H200, reference_ms=1.1),
    ]
    product = replace(MOVING, read_bytes=64, write_bytes=64, flops=10**13)
    found.append(hold_against_light(0.01, light(product, H200), H200))
    flags = {flag for finding in found for flag in finding.flags}
    assert flags == {
        *("below_memory_bound", "below_compute_bound", "below_estimated_bound"),
        *("latency_bound", "extreme_speedup", "bound_invalid", "above_ceiling"),
    }
    for flag in flags:
        assert told_in(told((flag,))) == told((flag,))
        assert len(told((flag,))) > len("Speed of light: .")


def test_far_above_the_ceiling_no_share_is_known() -> None:
    """There is a way with less work than is counted; what it leaves to be gained nobody knows."""
    product = Work(read_bytes=4096, avoidable_bytes=0, write_bytes=4096, flops=10**12)
    ceiling = ceiling_ms(product, H200, RATES)
    bounds = light(product, H200)
    noisy = hold_against_light(ceiling / 1.09, bounds, H200, rates=RATES)
    assert noisy.roofline_share == pytest.approx(1.09)
    assert "above_ceiling" not in noisy.flags
    beyond = hold_against_light(ceiling / 1.2, bounds, H200, rates=RATES)
    assert beyond.roofline_share is None
    assert "above_ceiling" in beyond.flags
    assert not beyond.is_impossible


def test_a_cpu_whose_cache_holds_everything_is_not_suspicious_for_using_it() -> None:
    cpu = replace(H200, warm=True, l2_mb=20_000, port_gbps=100_000.0)
    assert hold_against_light(1.0, light(MOVING, cpu), cpu).flags == ()
    small = replace(cpu, l2_mb=1)
    assert "below_memory_bound" in hold_against_light(2.01, light(MOVING, small), small).flags


def test_the_ceiling_lies_between_the_measured_mixes() -> None:
    read = Work(read_bytes=10**10, avoidable_bytes=0, write_bytes=0, flops=0)
    assert ceiling_ms(read, H200, RATES) == pytest.approx(1e4 / 4670)
    slow_writes = replace(RATES, write_gbps=4400)
    assert ceiling_ms(read, H200, slow_writes) == pytest.approx(1e4 / 4534)
    copied = replace(read, read_bytes=5 * 10**9, write_bytes=5 * 10**9 + 60_000_000)
    assert ceiling_ms(copied, H200, RATES) == pytest.approx(1e4 / 4251)
    written = replace(read, read_bytes=0, write_bytes=10**10 + 60_000_000)
    assert ceiling_ms(written, H200, RATES) == pytest.approx(1e4 / 4670)
    mostly_read = replace(read, read_bytes=75 * 10**8, write_bytes=25 * 10**8 + 60_000_000)
    assert 1e4 / 4670 < ceiling_ms(mostly_read, H200, RATES) < 1e4 / 4251


def test_the_ceiling_knows_precisions_and_launches() -> None:
    product = Work(read_bytes=4096, avoidable_bytes=0, write_bytes=4096, flops=10**12)
    assert ceiling_ms(product, H200, RATES) == pytest.approx(1e3 / 430)
    assert ceiling_ms(product, H200, RATES, "bf16") == pytest.approx(1e3 / 840)
    nothing = replace(product, flops=0)
    assert ceiling_ms(nothing, H200, RATES) == RATES.launch_ms


def test_convolutions_may_multiply_in_16_bits_where_torch_does_in_tf32() -> None:
    product = Work(read_bytes=4096, avoidable_bytes=0, write_bytes=4096, flops=10**12)
    convolution = replace(product, convolution_flops=10**12)
    assert ceiling_ms(convolution, H200, RATES) == pytest.approx(1e3 / 840)
    assert light(convolution, H200).compute_ms == pytest.approx(1e3 / (H200.fp16 or 0))
    mixed = replace(product, convolution_flops=4 * 10**11)
    assert ceiling_ms(mixed, H200, RATES) == pytest.approx(600 / 430 + 400 / 840)
    without = replace(RATES, tf32=None)
    expected = ceiling_ms(product, H200, without)
    assert ceiling_ms(convolution, H200, without) == expected


def test_the_share_is_reported_where_the_device_was_calibrated() -> None:
    bounds = light(MOVING, H200)
    assert hold_against_light(2.5, bounds, H200).roofline_share is None
    share = hold_against_light(2.5, bounds, H200, rates=RATES).roofline_share
    assert share == pytest.approx(ceiling_ms(MOVING, H200, RATES) / 2.5)


def test_a_device_faster_than_its_row_raises_the_row() -> None:
    assert corrected(H200, RATES) == H200
    faster = replace(RATES, read_gbps=5000.0, tf32=500.0)
    device = corrected(H200, faster)
    assert device.bandwidth_gbps == pytest.approx(5250)
    assert device.tf32 == pytest.approx(525)
    assert device.fp16 == H200.fp16


def test_rates_survive_json() -> None:
    assert Rates.from_json(json.loads(json.dumps(RATES.to_json()))) == RATES
