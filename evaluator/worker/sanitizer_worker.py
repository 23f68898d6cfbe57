"""The sanitizer worker: runs a candidate under NVIDIA's compute-sanitizer, in a process below it.

The tool starts the program that it looks at and talks to it by sockets. So this worker's sandbox
permits sockets where its network namespace leads nowhere and the host's files, sockets among them,
are hidden from it; all else is as for a candidate.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from archives.evaluation import Status
from evaluator.sanitizing import CALLED
from evaluator.worker import sanitized
from evaluator.worker.failures import Failure, describe
from evaluator.worker.serve import Handler

__all__ = ["SanitizerWorker"]

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_OUTPUT_BYTES = 32 << 10
_PRINTED = "5"
"""Findings that the tool prints; it counts all."""


class SanitizerWorker:
    """Serves the one op of a sanitizer worker.

    Args:
        device: Kind of device that the candidate runs on: "cuda", or "cpu" for a trial.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self.handlers: dict[str, Handler] = {"sanitize": self._sanitize}

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what went wrong with the tool into a failure."""
        del request
        return describe(error, file="", status=Status.RUNTIME_ERROR, reason="tool_failed")

    def _sanitize(self, request: dict[str, Any]) -> dict[str, Any]:
        order = {name: request[name] for name in ("source", "candidate", "seed")}
        order |= {"dtype": _DTYPES[request["precision"]], "device": self._device, "called": CALLED}
        Path("order.json").write_text(json.dumps(order))
        command = [
            *(request["tool"], "--tool", request["check"], "--print-limit", _PRINTED),
            *("--show-backtrace", "no"),
            # What torch tries and does without is no error of the candidate.
            *(("--report-api-errors", "no") if request["check"] == "memcheck" else ()),
            *(sys.executable, "-P", sanitized.__file__, "order.json"),
        ]
        # Memory of its own for each tensor: beside a block of torch's cache lies another tensor.
        environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        written = Path("output.txt")
        with written.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - the tool that the referee names
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
            finished = _ended(process, request["patience_s"])
        text = written.read_bytes()[-_OUTPUT_BYTES:].decode("utf-8", "replace")
        return {"finished": finished, "output": text}


def _ended(process: subprocess.Popen[bytes], patience_s: float) -> bool:
    """Wait for a process; end it with its children and return False where that takes too long."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True
