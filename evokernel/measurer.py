"""The process that measures torch: it forks a child for each request and says how that ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from evaluator.processes import worker_environment
from problems.errors import EvaluatorError

if TYPE_CHECKING:
    from evaluator.referee.cuda.device import Gpu

__all__ = ["ask", "gate_name", "measurer"]

_CPU_VARIABLES = (
    "OMP_WAIT_POLICY",
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_MAX_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_TOP_PAD_",
)
_END_S = 10.0


@contextmanager
def measurer(
    kind: str, jobs: int, left_s: float | None, *, compiles: bool
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that forks a child for each task; end it, and its children.

    Args:
        kind: Of device.
        jobs: Such processes in all.
        left_s: Seconds after which it is ended whatever it does; None: never.
        compiles: Whether a compiled setting will be asked for.
    """
    with tempfile.TemporaryDirectory(prefix="evokernel-baseline-") as folder:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": folder}
        if kind == "cuda":
            environment |= {
                "CUDA_VISIBLE_DEVICES": str(_gpu().index),
                "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            }
        if jobs > 1:
            # Pools of further processes would cost each task more than they gain.
            environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        if kind == "cpu":
            known = worker_environment()
            environment |= {name: known[name] for name in _CPU_VARIABLES}
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [
                *(sys.executable, "-P", "-m", "evaluator.worker.yardsticks"),
                *(["compile"] if compiles else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=folder,
            process_group=0,  # Ctrl-C is for whoever started it, who ends it.
        )
        alarm = threading.Timer(left_s or 0.0, _end, [process])
        if left_s is not None:
            alarm.start()
        try:
            yield process
        finally:
            alarm.cancel()
            _stream(process.stdin).close()
            _wait(process)
            _stream(process.stdout).close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, whatever it does."""
    process.terminate()
    _wait(process)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def gate_name(kind: str) -> str:
    """Name of the timing gate that searches on the same device use."""
    return kind if kind == "cpu" else f"cuda-{_gpu().uuid}"


def _gpu() -> Gpu:
    """The GPU that is measured: the first one that this process may use."""
    from evaluator.referee.cuda.device import gpu_of

    return gpu_of(0)


def ask(process: subprocess.Popen[bytes], request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send one request and yield what is answered, up to and including the end.

    Raises:
        EvaluatorError: The process ended.
    """
    try:
        _stream(process.stdin).write(json.dumps(request).encode() + b"\n")
        _stream(process.stdin).flush()
    except BrokenPipeError as error:
        raise _dead(process) from error
    for line in _stream(process.stdout):
        answer = json.loads(line)
        yield answer
        if "end" in answer:
            return
    raise _dead(process)


def _dead(process: subprocess.Popen[bytes]) -> EvaluatorError:
    code = process.wait()
    return EvaluatorError(
        f"the process that measures torch ended with exit code {code}: what it printed is above; "
        "run 'evokernel doctor' to see what is missing"
    )


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "the process was started with pipes"
    return stream
