"""Measure torch's own times problem by problem, each in a process of its own.

    python -P -m evaluator.worker.yardsticks [compile]

Requests come as lines of JSON on standard input, and so do answers on standard output: one line
for each row, then one that says how the process ended. Every problem gets a child that is forked
after torch was imported and before a GPU was touched; what it breaks or hangs costs its own rows
alone.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
import warnings
from importlib import import_module
from typing import Any, BinaryIO

from evaluator.worker.sandbox import die_with_parent

__all__ = ["main"]

_MODULE = "evaluator.worker.yardsticks"
_TAIL_BYTES = 400
_FINISHED = b'{"finished": true}'
"""A child's last line. The end of its pipe would not do: compilers it forked hold that open."""
_WAITING, _GOES_ON = b'{"waiting": true}', b'{"waiting": false}'
"""A child's lines before and after it waits for its turn at the device."""


def main() -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # A problem may print; what it prints must not be taken for an answer.
    os.dup2(2, 1)
    # Once here, for all children.
    import_module("torch")
    if sys.argv[1:] == ["compile"]:
        import_module("torch._inductor.compile_fx")
        if not _forks_can_use_a_gpu():
            # Importing the compiler has touched the GPU here: each child imports it by itself.
            os.dup2(answers.fileno(), 1)
            os.execv(sys.executable, [sys.executable, "-P", "-m", _MODULE])  # noqa: S606 - ourselves
    cpus = sorted(os.sched_getaffinity(0))
    children: list[int] = []

    def end_at_once(number: int, _: object) -> None:
        # Not by an exception, which whatever runs at the moment might catch.
        for pid in children:
            _kill_group(pid)
            os.waitpid(pid, 0)
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end_at_once)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        end = _serve(request, cpus, answers, children)
        answers.write(json.dumps(end).encode() + b"\n")


def _forks_can_use_a_gpu() -> bool:
    """Tell whether CUDA can be used in a fork of this process; no context is made."""
    from torch import cuda

    with warnings.catch_warnings():
        # Of threads that the compiler has started: this child asks for a flag, and ends.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(int(cuda._is_in_bad_fork()))
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _serve(
    request: dict[str, Any], cpus: list[int], answers: BinaryIO, children: list[int]
) -> dict[str, Any]:
    """Fork a child for a request, pass its rows on, and say how it ended.

    Args:
        request: What to measure.
        cpus: All cores that this process may use.
        answers: Where rows go.
        children: Holds the child while it lives.
    """
    source, sink = os.pipe()
    with tempfile.TemporaryFile() as log:
        pid = os.fork()
        if pid == 0:
            os.close(source)
            _child(request, cpus, sink, log.fileno())
        os.close(sink)
        children.append(pid)
        try:
            how = _pass_on(source, answers, time.monotonic() + request["deadline_s"])
        finally:
            os.close(source)
            _kill_group(pid)
            children.remove(pid)
            _, status = os.waitpid(pid, 0)
        log.seek(max(log.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
        tail = log.read().decode("utf-8", "replace").strip()
    if how == "done":
        return {"end": how, "detail": ""}
    if how == "timeout":
        return {"end": how, "detail": f"not done after {request['deadline_s']:.0f} s"}
    code = os.waitstatus_to_exitcode(status)
    died = f"signal {-code}" if code < 0 else f"exit code {code}"
    return {"end": how, "detail": f"{died}: {tail.splitlines()[-1] if tail else 'no output'}"}


def _pass_on(source: int, answers: BinaryIO, deadline: float) -> str:
    """Copy a child's lines; return "done", "crashed" (it ended early) or "timeout".

    The deadline moves on while the child waits for its turn at the device.
    """
    rest = b""
    waiting_since: float | None = None
    while True:
        left = deadline - (waiting_since or time.monotonic())
        if left <= 0:
            return "timeout"
        readable, _, _ = select.select([source], [], [], left if waiting_since is None else None)
        if not readable:
            continue
        data = os.read(source, 1 << 16)
        if not data:
            return "crashed"
        # What a killed child was still writing is no line.
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line == _FINISHED:
                return "done"
            if line == _WAITING:
                waiting_since = time.monotonic()
            elif line == _GOES_ON:
                deadline += time.monotonic() - (waiting_since or time.monotonic())
                waiting_since = None
            else:
                answers.write(line + b"\n")


def _child(request: dict[str, Any], cpus: list[int], sink: int, log: int) -> None:
    """Measure, and end this process."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    die_with_parent()
    for standard in (1, 2):
        os.dup2(log, standard)
    code = 1
    try:
        _measure(request, cpus, sink)
        os.write(sink, _FINISHED + b"\n")
        code = 0
    except Exception as error:  # noqa: BLE001 - the problem's code may raise anything
        os.write(log, f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
    finally:
        os._exit(code)


def _measure(request: dict[str, Any], cpus: list[int], sink: int) -> None:
    import torch

    from evaluator.gate import Gate
    from evaluator.worker.yardstick import describe_device, measure_problem
    from evaluator.worker.yardstick_turns import Turns

    def tell(row: dict[str, Any]) -> None:
        os.write(sink, json.dumps(row).encode() + b"\n")

    os.sched_setaffinity(0, request["cpus"] or cpus)
    if request["cpus"]:
        torch.set_num_threads(len(request["cpus"]))
    tell({"device": describe_device(request["device"])})

    def say_waiting(waits: bool) -> None:
        os.write(sink, (_WAITING if waits else _GOES_ON) + b"\n")

    turns = Turns(Gate(request["gate"]), say_waiting)
    measure_problem(request, turns, tell, lambda doing: tell({"doing": doing}))


def _kill_group(pid: int) -> None:
    """Kill a child and what it started: compilers outlive it otherwise."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
