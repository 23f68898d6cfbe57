"""No candidate is faster than light: what a device does not allow is no verdict.

Covered: times below what a GPU's datasheet allows for the bytes of a problem, or for one launch;
times on a CPU below what its cores can load and store, what its memory was measured to deliver
beyond its caches, or one call of a function. Not covered: see `ceiling`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from archives.evaluation import DeviceFingerprint, Status
from archives.rates import Rates
from evaluator.referee.ceiling import Finding, corrected, hold_against_light, told
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.hardware import Device
from evaluator.referee.roofline import Light, Work, light, work_of
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from problems.graph import OperatorGraph
from problems.problem import Domain, DomainKind, Problem

__all__ = ["Limits", "cache_bytes", "cpu_limits", "record"]

_FASTEST_CLOCK_GHZ = 6.5
_PORTS = 3
"""Two loads and a store of a whole register in each cycle: more than any core does today."""
_WIDEST_BITS = 512
_CALL_FLOOR_MS = 0.0002
"""No Python method is called and returns in less."""
_SHARED_HOST_SLACK = 0.5
"""What a shared host delivers varies: its neighbours may have been busy when it was calibrated."""
_ABOVE_MEASURED = 1.1
_UNSEEN_CACHE = 4.0
"""A virtual machine may see a part of the cache that it uses."""


class Limits:
    """What one device allows for problems, each computed once. Usable from several threads."""

    def __init__(
        self,
        device: Device | None,
        settle: Callable[[Device, Rates], Device] = corrected,
    ) -> None:
        """Take a device as its datasheet says.

        Args:
            device: Its row; None: nothing is held against anything.
            settle: What becomes of the row once the device's rates are known.
        """
        self._device = device
        self._settle = settle
        self._rates: Rates | None = None
        self._lights: dict[tuple[str, tuple[Domain, ...]], Light] = {}
        self._lock = Lock()

    def calibrate(self, rates: Rates | None) -> None:
        """Take note of what the device was measured to reach; None: it is not known."""
        with self._lock:
            self._rates = rates
            if rates is not None and self._device is not None:
                self._device = self._settle(self._device, rates)
            self._lights.clear()

    def require_possible(
        self,
        problem: Problem,
        graph: OperatorGraph | None,
        ratio: Ratio,
        found_domains: Sequence[Mapping[str, Any]] = (),
    ) -> Finding:
        """Fail a candidate whose time no program on this device can reach.

        Args:
            problem: The problem.
            graph: Its operator graph; None where it cannot be traced: nothing is known then.
            ratio: What was measured.
            found_domains: `OpenedProblem.domains` of its session; what is not stated was inferred
                there.

        Returns:
            The share of the device's ceiling that was reached, and what is suspicious; an empty
            one where nothing is known.

        Raises:
            CandidateFailed: `IMPOSSIBLE`, "faster_than_memory", "faster_than_a_launch" or
                "faster_than_a_call".
        """
        if self._device is None or graph is None:
            return Finding()
        domains = problem.domains or _inferred(found_domains)
        key = (problem.key, domains)
        with self._lock:
            device, rates = self._device, self._rates
            bound = self._lights.get(key)
            if bound is None:
                work = work_of(graph, domains)
                bound = self._lights[key] = light(work, device, problem.precision)
        found = hold_against_light(
            ratio.latency_ms,
            bound,
            device,
            rates=rates if _leaves_the_cache(bound.work, device) else None,
            precision=problem.precision,
            reference_ms=ratio.reference_ms,
        )
        if found.is_impossible:
            raise CandidateFailed(Status.IMPOSSIBLE, found.reason, found.sentence)
        return found


def record(found: Finding, findings: Findings) -> None:
    """Put what light says of a candidate's time into what is known of the candidate.

    Args:
        found: What `Limits.require_possible` returned.
        findings: Gets the share, and a sentence in its log for all that is suspicious.
    """
    findings.roofline_share = found.roofline_share
    sentences = (findings.conditions, told(found.flags))
    findings.conditions = " ".join(sentence for sentence in sentences if sentence)


def _inferred(domains: Sequence[Mapping[str, Any]]) -> tuple[Domain, ...]:
    return tuple(
        Domain(kind=DomainKind(each["kind"]), upper=each["upper"], inferred=True)
        for each in domains
    )


def cpu_limits(cpu: DeviceFingerprint, cached: float | None = None) -> Limits:
    """Return the limits of a CPU; of its memory nothing is known before it is calibrated.

    Args:
        cpu: As it is timed.
        cached: Bytes of its last-level cache; None: what this host tells of it.
    """
    width = cpu.vector_bits or _WIDEST_BITS
    cached = cache_bytes() if cached is None else cached
    device = Device(
        name=cpu.name,
        match=(),
        bandwidth_gbps=math.inf,
        port_gbps=max(cpu.threads, 1) * _PORTS * width / 8 * _FASTEST_CLOCK_GHZ,
        fp32=math.inf,
        l2_mb=_UNSEEN_CACHE * cached / 1e6,
        slack=_SHARED_HOST_SLACK,
        floor_ms=_CALL_FLOOR_MS,
        warm=True,
        source="this host",
    )
    return Limits(device, settle=_settle_cpu)


def cache_bytes(cpus: Path = Path("/sys/devices/system/cpu")) -> float:
    """Return the size of this host's last-level cache; infinite where it is not known.

    Args:
        cpus: The kernel's files on processors.
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for path in cpus.glob("cpu0/cache/index*/size"):
        text = path.read_text().strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return max(sizes, default=math.inf)


def _settle_cpu(device: Device, rates: Rates) -> Device:
    fastest = max(rates.read_gbps, rates.write_gbps, rates.copy_gbps)
    return replace(
        device,
        bandwidth_gbps=_ABOVE_MEASURED * fastest,
        fp32=_ABOVE_MEASURED * rates.fp32,
    )


def _leaves_the_cache(work: Work, device: Device) -> bool:
    """Tell whether the measured rates, which are those of memory, hold for some work."""
    return not device.warm or work.bytes > 1e6 * device.l2_mb
