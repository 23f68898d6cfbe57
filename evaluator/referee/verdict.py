"""Verdicts: how what was found on the way up the ladder becomes an `Evaluation`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archives.configuration import Configuration
from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    KernelFacts,
    Mismatch,
    Reuse,
    Rung,
    Status,
)
from evaluator.referee.failure import CandidateFailed, clipped
from evaluator.referee.timing import Ratio

__all__ = ["REFEREE_VERSION", "Findings", "Verdicts", "facts_of"]

REFEREE_VERSION = "cpu-9"
"""Changes whenever numbers would: those of two versions are never compared."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """What is known of a candidate so far; filled step by step.

    Attributes:
        rung: The highest rung passed.
        isolation: Protections that its process had.
        error: Worst error against float64, relative to the output's RMS.
        error_bound: The bound that held there.
        outcomes: Verdict of each configuration tried, by number.
        latencies: Time of a call of each configuration timed, in ms, by number.
        points: The configurations, by number; None: the one in the source.
        facts: About its kernels.
        roofline_share: Ceiling time over its time; None: not known.
        conditions: What its timings ran under, in a sentence; "" where nothing tells.
    """

    rung: Rung = Rung.NONE
    isolation: str = ""
    error: float | None = None
    error_bound: float | None = None
    outcomes: dict[int, Status] = field(default_factory=dict)
    latencies: dict[int, float] = field(default_factory=dict)
    points: tuple[Configuration | None, ...] = ()
    facts: KernelFacts = field(default_factory=KernelFacts)
    roofline_share: float | None = None
    conditions: str = ""

    def failures(self) -> tuple[ConfigurationResult, ...]:
        """Return the configurations that failed: of a program that did, no other was checked."""
        return tuple(one for one in self.results() if one.status is not Status.OK)

    def results(self) -> tuple[ConfigurationResult, ...]:
        """Return what became of each declared configuration."""
        return tuple(
            ConfigurationResult(
                configuration=point,
                status=self.outcomes[number],
                latency_ms=self.latencies.get(number),
            )
            for number, point in enumerate(self.points)
            if point is not None and number in self.outcomes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """Makes evaluations.

    Attributes:
        device: Where it was measured.
        referee_version: By which protocol.
    """

    device: DeviceFingerprint
    referee_version: str

    def passed(self, findings: Findings, ratio: Ratio, winner: int, cost_s: float) -> Evaluation:
        """Return the verdict on a candidate that was right and timed.

        Args:
            findings: What is known of it.
            ratio: Its time against the reference's.
            winner: Number of its best configuration.
            cost_s: Seconds that it took.
        """
        return Evaluation(
            status=Status.OK,
            log=findings.conditions,
            rung=findings.rung,
            latency_ms=ratio.latency_ms,
            reference_ms=ratio.reference_ms,
            speedup=ratio.speedup,
            interval=ratio.interval,
            # A CPU has one setting of torch that counts: there is no TF32 to match.
            matched_speedup=ratio.speedup if self.device.kind == "cpu" else None,
            error=findings.error,
            error_bound=findings.error_bound,
            facts=findings.facts,
            configuration=findings.points[winner],
            configurations=findings.results(),
            roofline_share=findings.roofline_share,
            isolation=findings.isolation,
            device=self.device,
            referee_version=self.referee_version,
            cost_s=cost_s,
        )

    def failed(self, findings: Findings, failure: CandidateFailed, cost_s: float) -> Evaluation:
        """Return the verdict on a candidate that failed."""
        return Evaluation(
            status=failure.status,
            reason=failure.reason,
            rung=findings.rung,
            log=_with_conditions(failure, findings.conditions),
            error=findings.error,
            error_bound=findings.error_bound,
            configurations=findings.failures(),
            isolation=findings.isolation,
            device=self.device,
            referee_version=self.referee_version,
            cost_s=cost_s,
        )


def _with_conditions(failure: CandidateFailed, conditions: str) -> str:
    """The failure's log; what the device was like belongs to a timing that nothing came of."""
    if failure.status is not Status.UNSTABLE or not conditions:
        return failure.log
    return clipped(f"{failure.log} {conditions}")


def facts_of(reply: Mapping[str, Any]) -> KernelFacts:
    """Read a census; whatever is malformed counts as not measured."""
    reuse = reply.get("reuse")
    share = _number(reply.get("own_kernel_share"))
    return KernelFacts(
        launches=_count(reply.get("launches")),
        own_kernel_share=None if share is None else min(share, 1.0),
        reuse=next((r for r in Reuse if r == reuse), None),
        work=_count(reply.get("work")),
        vector_bits=_count(reply.get("vector_bits")),
        registers=_count(reply.get("registers")),
        shared_bytes=_count(reply.get("shared_bytes")),
        programs=_count(reply.get("programs")),
        streams=_count(reply.get("streams")),
        spread=_spread(reply.get("spread")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _spread(value: object) -> float | Mismatch | None:
    return next((one for one in Mismatch if one == value), None) or _number(value)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
