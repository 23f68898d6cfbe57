"""Failures of a candidate as values: status, reason code, distilled log."""

from __future__ import annotations

import subprocess
import traceback
from typing import Any

from archives.evaluation import Evaluation, Status

__all__ = ["Failure", "describe"]

_TAIL_BYTES = 3000


class Failure(Exception):
    """A candidate failed in a way that has its own status and reason.

    Args:
        status: The verdict.
        reason: Stable code.
        log: What its author needs to know.
    """

    def __init__(self, status: Status, reason: str, log: str = "") -> None:
        super().__init__(log or reason)
        self.status = status
        self.reason = reason
        self.log = log

    def reply(self) -> dict[str, Any]:
        """Return the failure as a reply of the protocol."""
        log = _cut(self.log.encode("utf-8", "replace"), Evaluation.MAX_LOG_BYTES)
        return {"ok": False, "status": self.status, "reason": self.reason, "log": log}


def describe(error: Exception, *, file: str, status: Status, reason: str) -> Failure:
    """Turn whatever a candidate raised into a failure.

    Args:
        error: What was raised.
        file: Name of the candidate's file; frames of other files are left out.
        status: Verdict, unless the error tells a better one.
        reason: Stable code, likewise.
    """
    if isinstance(error, Failure):
        return error
    if _is_memory(error):
        status, reason = Status.OUT_OF_MEMORY, "allocation_failed"
    elif _lost_context(error):
        # An illegal access or a failed assertion on the device: its context is lost.
        status, reason = Status.RUNTIME_ERROR, "cuda_error"
    elif isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
        reason = "compile_failed" if status is Status.BUILD_ERROR else reason
    frames = [
        f"line {frame.lineno}, in {frame.name}: {frame.line or ''}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == file
    ]
    lines = frames[-8:] + [line.rstrip() for line in traceback.format_exception_only(error)]
    printed = _printed(error)
    if printed:
        lines.append(printed)
    return Failure(status, reason, "\n".join(lines))


_NO_MEMORY = (
    "DefaultCPUAllocator",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Triton Error [CUDA]: out of memory",
)
"""What torch, cuBLAS and Triton say where there is no memory; the context is not lost then."""


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _NO_MEMORY)
    )


def _lost_context(error: Exception) -> bool:
    return type(error).__name__ == "AcceleratorError" or (
        isinstance(error, RuntimeError)
        and any(words in str(error) for words in ("CUDA error", "Triton Error [CUDA]"))
    )


def _printed(error: Exception) -> str:
    """Return what a failed program printed, its end."""
    if not isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
        return ""
    for stream in (error.stderr, error.stdout):
        if stream:
            data = stream if isinstance(stream, bytes) else str(stream).encode("utf-8", "replace")
            return _cut(data, _TAIL_BYTES)
    return ""


def _cut(data: bytes, limit: int) -> str:
    """Return at most `limit` bytes as text: the first third and the end."""
    if len(data) > limit:
        mark = b"\n[...]\n"
        head = limit // 3
        data = data[:head] + mark + data[len(data) - (limit - head - len(mark)) :]
    text = data.decode("utf-8", "ignore")
    return text.encode("utf-8", "ignore")[:limit].decode("utf-8", "ignore")
