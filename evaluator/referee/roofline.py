"""The speed of light of a problem: no hardware can be faster than this.

Light is max(compulsory bytes / bandwidth, matrix FLOPs / rate of the fastest permitted unit,
launch floor), from the operator graph alone. Bytes are hard: a time under 0.97 of them is
impossible. FLOPs are soft: algebra and sparsity may beat them, so a time under them asks for deeper
verification and never rejects on its own.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM
2009.
The hard slack of 0.97 covers clock and bandwidth tolerance: over 992 published H100 timings the
smallest measured-over-bound ratio of honest code was 1.03.
"""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.referee.hardware import HARD_SLACK, LAUNCH_FLOOR_MS, Device, products_ms
from evaluator.referee.work import Work, work_of

__all__ = ["HARD_SLACK", "LAUNCH_FLOOR_MS", "Light", "Work", "light", "work_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Light:
    """The bounds of one problem on one device, all times in ms.

    Attributes:
        work: What must be done.
        memory_ms: Time to move the compulsory bytes.
        compute_ms: Time of the matrix FLOPs on the fastest permitted unit.
        sol_ms: The speed of light: the largest of the two and the floor of a launch or call.
        hard_ms: A measured time below this is impossible.
        bound: What sets `sol_ms`: "memory", "compute" or "launch".
    """

    work: Work
    memory_ms: float
    compute_ms: float
    sol_ms: float
    hard_ms: float
    bound: str


def light(work: Work, device: Device, precision: str = "fp32") -> Light:
    """Return the bounds of a problem's work on a device.

    The hard bound leaves out what some correct program may not read, and what may still sit in the
    last-level cache when the clock stops.
    """
    per_ms = device.bandwidth_gbps * 1e6
    memory_ms = work.bytes / per_ms
    rates = (device.fp32, device.tf32, device.fp16)
    compute_ms = products_ms(work.flops, work.convolution_flops, rates, precision)
    certain = work.bytes - work.avoidable_bytes
    in_cache = min(certain if device.warm else work.write_bytes, device.l2_mb * 1e6)
    hard_ms = device.slack * (certain - in_cache) / per_ms
    if device.port_gbps is not None:
        hard_ms = max(hard_ms, certain / (device.port_gbps * 1e6))
    times = {"memory": memory_ms, "compute": compute_ms, "launch": device.floor_ms}
    bound = max(times, key=lambda name: times[name])
    return Light(
        work=work,
        memory_ms=memory_ms,
        compute_ms=compute_ms,
        sol_ms=times[bound],
        hard_ms=max(hard_ms, device.floor_ms),
        bound=bound,
    )
