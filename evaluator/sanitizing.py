"""What NVIDIA's compute-sanitizer says of a candidate, read from what it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["CALLED", "CHECKS", "MEMCHECK", "RACECHECK", "Sanitized", "read_findings"]

MEMCHECK, RACECHECK = "memcheck", "racecheck"
CHECKS = (MEMCHECK, RACECHECK)
"""Tools of compute-sanitizer that are asked: accesses out of bounds, races in shared memory."""
CALLED = "evokernel: the candidate was called"
"""Printed by what runs under the tool, once the call has ended."""

_SUMMARY = re.compile(r"ERROR SUMMARY: (\d+) errors?$|RACECHECK SUMMARY: (\d+) hazards? displayed")
_PREFIX = "========="
_BESIDE = re.compile(
    r"COMPUTE-SANITIZER|SUMMARY|Target application|process didn't terminate successfully|^\s*$"
)
_LINES, _LINE_LENGTH = 8, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanitized:
    """What one check found.

    Attributes:
        check: "memcheck" or "racecheck".
        errors: How many findings there are; None: the check did not come to its end.
        log: The first findings, or why it did not.
    """

    check: str
    errors: int | None
    log: str = ""


def read_findings(check: str, output: str, *, finished: bool) -> Sanitized:
    """Read what the tool printed.

    Args:
        check: Which tool it was.
        output: The end of what it and the candidate printed.
        finished: Whether it ended by itself in time.

    Source: NVIDIA, Compute Sanitizer, User Manual: "ERROR SUMMARY: 2 errors" of memcheck and
        "RACECHECK SUMMARY: 1 hazard displayed" of racecheck end a report, whose lines begin "=".
    """
    said = [line for line in output.splitlines() if line.startswith(_PREFIX)]
    lines = [line.lstrip("= ") for line in said]
    summary = [found for line in lines if (found := _SUMMARY.search(line))]
    if not finished:
        return Sanitized(check=check, errors=None, log="it took too long")
    if not summary:
        return Sanitized(check=check, errors=None, log=_clipped(output.splitlines()[-_LINES:]))
    errors = int(summary[-1].group(1) or summary[-1].group(2))
    if errors:
        findings = [line for line in lines if not _BESIDE.search(line)]
        return Sanitized(check=check, errors=errors, log=_clipped(findings[:_LINES]))
    if CALLED not in output:
        others = [line for line in output.splitlines() if not line.startswith(_PREFIX)]
        return Sanitized(check=check, errors=None, log=_clipped(others[-_LINES:]))
    return Sanitized(check=check, errors=0)


def _clipped(lines: list[str]) -> str:
    return "\n".join(line.strip()[:_LINE_LENGTH] for line in lines if line.strip())
