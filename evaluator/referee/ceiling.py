"""A measured time held against the roofline: what is impossible, what is suspicious, what is left.

Covered: times below what memory or a launch permits, on devices whose datasheet was checked.
Not covered: work that was skipped or cached behind a believable time; that is for the referee's
outputs, fresh inputs and clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from archives.rates import Rates
from evaluator.referee.hardware import Device, products_ms
from evaluator.referee.roofline import Light
from evaluator.referee.work import Work

__all__ = ["Finding", "ceiling_ms", "corrected", "hold_against_light", "told", "told_in"]

_MARGIN = 1.03
"""Smallest ratio of measured time to memory bound that honest code was seen to reach."""
_LATENCY_BOUND_MS = 0.005
_EXTREME_SPEEDUP = 10.0
_ABOVE_MEASURED = 1.05
_ABOVE_CEILING = 1.1
"""Shares beyond that are no noise: honest ones of another day's rates were seen up to 1.08."""
_TELLING = "Speed of light: "
_WORDS = {
    "below_memory_bound": "within 3 % of the device's full bandwidth, or above it",
    "below_compute_bound": "faster than its products take at the device's full rate",
    "below_estimated_bound": "faster than the estimated row of this device allows",
    "latency_bound": "hardly longer than a launch",
    "extreme_speedup": "more than 10 times as fast as the reference",
    "bound_invalid": "the reference itself is faster than the bound, which is wrong here",
    "above_ceiling": "far above what the device was measured to reach, so no share is given",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the roofline says of one measured time.

    Attributes:
        reason: "faster_than_memory", "faster_than_a_launch" or, on a CPU, "faster_than_a_call"
            where the time is impossible; else "".
        sentence: What is impossible, with its numbers; else "".
        flags: Why to verify deeper; none of them rejects. "below_memory_bound",
            "below_compute_bound", "below_estimated_bound" (of a device whose datasheet was not
            checked), "latency_bound", "extreme_speedup", "above_ceiling" (by more than 10 %: there
            is a way with less work than the ceiling counts) and "bound_invalid" (the reference
            itself is faster than light: the bound is wrong, and nothing was held against it).
        roofline_share: Ceiling time over measured time; None where the device was not calibrated,
            and where the time is above the ceiling: of such a kernel nobody knows what is left.
    """

    reason: str = ""
    sentence: str = ""
    flags: tuple[str, ...] = ()
    roofline_share: float | None = None

    @property
    def is_impossible(self) -> bool:
        """True where no program on this device can have done the work in that time."""
        return bool(self.reason)


def hold_against_light(
    latency_ms: float,
    light: Light,
    device: Device,
    *,
    rates: Rates | None = None,
    precision: str = "fp32",
    reference_ms: float | None = None,
) -> Finding:
    """Hold a measured time against what the device can do.

    Args:
        latency_ms: Median of one call with cold caches and fresh contents, ms.
        light: Bounds of the problem on the device.
        device: Its row of the hardware table.
        rates: Its calibrated rates, where known.
        precision: Precision of the problem, as for `Device.matrix_tflops`.
        reference_ms: The same time of the reference, where known, ms.
    """
    share = None
    if rates is not None:
        share = ceiling_ms(light.work, device, rates, precision) / latency_ms
    above = () if share is None or share <= _ABOVE_CEILING else ("above_ceiling",)
    if above:
        share = None
    if reference_ms is not None and reference_ms < light.hard_ms:
        return Finding(flags=("bound_invalid", *above), roofline_share=share)
    flags = (*_flags(latency_ms, light, device, reference_ms), *above)
    if latency_ms >= light.hard_ms:
        return Finding(flags=flags, roofline_share=share)
    if device.estimated:
        return Finding(flags=("below_estimated_bound", *flags), roofline_share=share)
    reason = "faster_than_memory"
    if latency_ms < device.floor_ms:
        reason = "faster_than_a_call" if device.warm else "faster_than_a_launch"
    return Finding(
        reason=reason,
        sentence=_sentence(reason, latency_ms, light, device),
        flags=flags,
        roofline_share=share,
    )


def told(flags: Sequence[str]) -> str:
    """Return a sentence on flags for the log of a verdict; "" where there are none."""
    return f"{_TELLING}{'; '.join(_WORDS[flag] for flag in flags)}." if flags else ""


def told_in(log: str) -> str:
    """Return what `told` has put into a verdict's log; "" where it holds no such sentence."""
    _, found, rest = log.partition(_TELLING)
    return f"{found}{rest.partition('.')[0]}." if found else ""


def ceiling_ms(work: Work, device: Device, rates: Rates, precision: str = "fp32") -> float:
    """Return the time in which a device that reaches its measured rates does the work, ms.

    Mixed reading and writing lies between reading, copying and writing. What the last-level cache
    can still hold when the clock stops need not have reached memory.
    """
    written = max(work.write_bytes - device.l2_mb * 1e6, 0.0)
    memory_ms = (work.read_bytes + written) / (_mixed_gbps(work.read_bytes, written, rates) * 1e6)
    tf32 = None if device.tf32 is None else rates.tf32
    measured = (rates.fp32, tf32, rates.fp16)
    compute_ms = products_ms(work.flops, work.convolution_flops, measured, precision)
    return max(memory_ms, compute_ms, rates.launch_ms)


def corrected(device: Device, rates: Rates) -> Device:
    """Return a device whose table is no slower than what was measured on it.

    A rate above the datasheet's shows that the row is wrong for this very device: it is raised to
    5 % above the measured one.
    """
    fastest = max(rates.read_gbps, rates.write_gbps, rates.copy_gbps)
    return replace(
        device,
        bandwidth_gbps=_raised(device.bandwidth_gbps, fastest),
        fp32=_raised(device.fp32, rates.fp32),
        tf32=None if device.tf32 is None else _raised(device.tf32, rates.tf32),
        fp16=None if device.fp16 is None else _raised(device.fp16, rates.fp16),
    )


def _raised(stated: float, measured: float | None) -> float:
    return stated if measured is None or measured <= stated else _ABOVE_MEASURED * measured


def _mixed_gbps(read: float, written: float, rates: Rates) -> float:
    """Rate at which a mix moves: time for each byte is linear between the measured mixes.

    Memory delivers no less than it takes: where torch's sums read slower than its fill writes, they
    were what was slow. On an H200 they read 4412 GB/s, the fill wrote 4627 and a Triton loss read
    4679 (benchmarks/results/level1-h200, problem 94).
    """
    total = read + written
    share = written / total if total else 0.0
    low, high, start = max(rates.read_gbps, rates.write_gbps), rates.copy_gbps, 0.0
    if share > 0.5:
        low, high, start = rates.copy_gbps, rates.write_gbps, 0.5
    place = (share - start) / 0.5
    return 1.0 / ((1 - place) / low + place / high)


def _flags(
    latency_ms: float, light: Light, device: Device, reference_ms: float | None
) -> tuple[str, ...]:
    is_moved = not device.warm or light.work.bytes > 1e6 * device.l2_mb
    found = {
        "below_memory_bound": is_moved and latency_ms < _MARGIN * light.memory_ms,
        "below_compute_bound": latency_ms < light.compute_ms,
        "latency_bound": not device.warm and latency_ms <= _LATENCY_BOUND_MS,
        "extreme_speedup": reference_ms is not None
        and reference_ms > _EXTREME_SPEEDUP * latency_ms,
    }
    return tuple(name for name, holds in found.items() if holds)


def _sentence(reason: str, latency_ms: float, light: Light, device: Device) -> str:
    if reason != "faster_than_memory":
        what = "launch" if reason == "faster_than_a_launch" else "call"
        return (
            f"a call took {latency_ms * 1e3:.2f} us, less than the {device.floor_ms * 1e3:.1g} us "
            f"of a {what} that does nothing: the work was not done in the time that was measured"
        )
    needed = light.work.bytes - light.work.avoidable_bytes
    rate = "" if device.warm else f" (at {device.bandwidth_gbps:,.0f} GB/s)"
    return (
        f"a call took {latency_ms:.4f} ms, less than the {light.hard_ms:.4f} ms in which "
        f"{device.name} can move the {needed / 1e6:,.1f} MB that every program has to move{rate}: "
        "the work was not done in the time that was measured"
    )
