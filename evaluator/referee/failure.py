"""How a candidate fails, between the step that saw it and the verdict that tells it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from archives.evaluation import Evaluation, Status

__all__ = ["CandidateFailed", "clipped", "failure_of_exit", "failure_of_reply", "host_noisy"]

REPORTABLE = {
    Status.BUILD_ERROR,
    Status.RUNTIME_ERROR,
    Status.OUT_OF_MEMORY,
    Status.WRONG_SHAPE,
    Status.WRONG_DTYPE,
}
"""Statuses that a candidate's process may claim for itself: none of them helps it."""


class CandidateFailed(Exception):
    """Raised inside the referee alone; `Referee.evaluate` turns it into an `Evaluation`."""

    def __init__(self, status: Status, reason: str, log: str = "") -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.log = clipped(log)


def clipped(text: str) -> str:
    """Cut a text to what an evaluation's log may hold, keeping its end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= Evaluation.MAX_LOG_BYTES:
        return data.decode()
    return "..." + data[-(Evaluation.MAX_LOG_BYTES - 8) :].decode("utf-8", "ignore")


def failure_of_reply(reply: Mapping[str, Any], fallback: Status) -> CandidateFailed:
    """Read a reply that says no; whatever is malformed in it is replaced.

    Args:
        reply: What a candidate's process sent.
        fallback: Status to take where it claims one that is not for it to claim.
    """
    status = reply.get("status")
    known = [s for s in REPORTABLE if s == status]
    reason, log = reply.get("reason"), reply.get("log")
    named = isinstance(reason, str) and reason.isidentifier() and len(reason) <= 64
    return CandidateFailed(
        known[0] if known else fallback,
        str(reason) if named else "unexplained",
        log if isinstance(log, str) else "",
    )


def failure_of_exit(code: int | None) -> CandidateFailed:
    """Explain a process that ended before it replied.

    Args:
        code: Exit code, negative for a signal, None where unknown.
    """
    if code is None:
        log = "the process closed its channel: forward must not touch other descriptors."
        return CandidateFailed(Status.CRASHED, "channel_closed", log)
    if code >= 0:
        log = f"the process exited with code {code}: a candidate must return, never exit."
        return CandidateFailed(Status.CRASHED, "early_exit", log)
    name = _signal_name(-code)
    if name == "SIGSYS":
        log = "the process used a system call that is not permitted, such as a socket."
        return CandidateFailed(Status.CRASHED, "forbidden_system_call", log)
    log = f"the process was killed by {name}: look for reads or writes out of bounds."
    return CandidateFailed(Status.CRASHED, f"killed_by_{name}", log)


def host_noisy(what: str) -> CandidateFailed:
    """Return the failure of a timing that this host does not allow."""
    return CandidateFailed(Status.UNSTABLE, "host_noisy", f"{what}: the host is busy, try again.")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal_{number}"
