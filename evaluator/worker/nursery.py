"""Forking of workers, in the zygote: into namespaces, watched over, and reaped."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluator.wire import Channel, ChannelClosed
from evaluator.worker.namespaces import enter, write_id_maps
from evaluator.worker.sandbox import Limits
from evaluator.worker.worker import (
    GPU_ROLES,
    MEMORY_OF_ROLE,
    SANITIZER_ROLES,
    TRUSTED_ROLES,
    Setup,
    WorkerOrder,
    live,
)

__all__ = ["Nursery"]

_SETUP_TIMEOUT_S = 10.0
_POLL_S = 0.001
_FIRST_PRIVATE_ID = 1_000_000_000
_PRIVATE_IDS = 60_000
_DEFAULT_SCRATCH_BYTES = 256 << 20


class _SetupFailed(Exception):
    """A worker did not come up; the message says where."""


class Nursery:
    """Forks workers on request.

    Args:
        channel: To the referee.
        cpus: All CPUs that workers may be given.
    """

    def __init__(self, channel: Channel, cpus: Sequence[int]) -> None:
        self._channel = channel
        self._cpus = list(cpus)
        self._ids = itertools.cycle(range(_FIRST_PRIVATE_ID, _FIRST_PRIVATE_ID + _PRIVATE_IDS))
        self._workers: set[int] = set()
        self._exits: dict[int, int] = {}

    def run(self) -> None:
        """Serve until the referee hangs up; then end every worker."""
        self._channel.send({"ok": True, "ready": True, "pid": os.getpid(), "cpus": self._cpus})
        while True:
            try:
                request, descriptors = self._channel.receive_with_descriptors()
            except ChannelClosed:
                break
            self._channel.send(self._answer(request, descriptors))
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)

    def _answer(self, request: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        try:
            if request["op"] == "spawn":
                return self._spawn(request, descriptors)
            if request["op"] == "reap":
                return self._reap(request)
            raise _SetupFailed(f"unknown op {request['op']!r}")
        except (_SetupFailed, OSError, KeyError, ValueError) as error:
            log = f"{type(error).__name__}: {error}"
            return {"ok": False, "status": "CRASHED", "reason": "spawn_failed", "log": log}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _spawn(self, request: dict[str, Any], descriptors: Sequence[int]) -> dict[str, Any]:
        order = _order_of(request, self._cpus)
        if len(descriptors) != 1 + len(order.memory):
            raise _SetupFailed(
                f"{len(descriptors)} descriptors came with {len(order.memory)} memory names"
            )
        self._collect()
        pid, held = _fork_worker(order, descriptors, next(self._ids))
        self._workers.add(pid)
        return {"ok": True, "pid": pid, "isolation": "+".join(held)}

    def _reap(self, request: dict[str, Any]) -> dict[str, Any]:
        pid = request["pid"]
        self._wait(pid, request["timeout_s"])
        if pid in self._workers and request.get("kill", False):
            os.kill(pid, signal.SIGKILL)
            self._wait(pid, _SETUP_TIMEOUT_S)
        return {"ok": True, "exit": self._exits.pop(pid, None)}

    def _wait(self, pid: int, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        self._collect()
        while pid in self._workers and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            self._collect()

    def _collect(self) -> None:
        """Take note of children that ended, orphans of workers among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._workers:
                self._workers.remove(pid)
                self._exits[pid] = os.waitstatus_to_exitcode(status)
        self._kill_orphans()

    def _kill_orphans(self) -> None:
        """Kill what ended workers left behind, where no PID namespace did it."""
        task = f"/proc/self/task/{os.getpid()}/children"
        with open(task) as file:
            children = {int(word) for word in file.read().split()}
        for orphan in children - self._workers:
            os.kill(orphan, signal.SIGKILL)


def _order_of(request: dict[str, Any], cpus: Sequence[int]) -> WorkerOrder:
    role = request["role"]
    if role not in MEMORY_OF_ROLE:
        raise _SetupFailed(f"unknown role {role!r}")
    wanted = MEMORY_OF_ROLE[role]
    if not set(request["memory"]) <= set(wanted):
        raise _SetupFailed(f"a {role} worker takes the memories {wanted}")
    return WorkerOrder(
        role=role,
        memory=request["memory"],
        populate=bool(request.get("populate", False)),
        limits=Limits(
            cpus=request["cpus"],
            threads=request["threads"],
            # What the reference maps is sized only later, and it is trusted.
            memory_bytes=None if role in TRUSTED_ROLES else request["memory_bytes"] or None,
            scratch=request["scratch"],
            scratch_bytes=request.get("scratch_bytes", _DEFAULT_SCRATCH_BYTES),
            build=request.get("build"),
            build_writable=bool(request.get("build_writable", False)),
            every_cpu=set(request["cpus"]) == set(cpus),
            gpu=role in GPU_ROLES,
            readable=request.get("readable", ()),
            sockets=role in SANITIZER_ROLES,
        ),
    )


def _fork_worker(
    order: WorkerOrder, descriptors: Sequence[int], private_id: int
) -> tuple[int, list[str]]:
    """Fork a worker and wait until it is confined.

    The first child enters the namespaces and forks the worker into them; the id maps are written
    from outside, and the worker goes on once it is this process's own child, so that it dies with
    it.

    Returns:
        Its pid as seen here, and the protections that hold.
    """
    up_read, up_write = os.pipe()
    down_read, down_write = os.pipe()
    first = os.fork()
    if first == 0:
        _run_child(order, descriptors, down_read, up_write, (up_read, down_write))
    os.close(up_write)
    os.close(down_read)
    pid: int | None = None
    held: list[str] | None = None
    try:
        deadline = time.monotonic() + _SETUP_TIMEOUT_S
        spaces = json.loads(_line(up_read, deadline))
        private = "user" in spaces and write_id_maps(first, private_id)
        if private:
            _give(order, private_id)
        os.write(down_write, b"1\n" if private else b"0\n")
        # The first child tells the worker's pid, the worker its protections: either may be first.
        while pid is None or held is None:
            line = _line(up_read, deadline)
            if line.startswith("!"):
                raise _SetupFailed(line[1:])
            if line.startswith("["):
                held = json.loads(line)
            else:
                pid = int(line)
        os.waitpid(first, 0)
        os.write(down_write, b"go\n")
    except (_SetupFailed, OSError, ValueError) as error:
        _abandon(first, pid)
        raise _SetupFailed(f"a worker did not come up: {error}") from error
    finally:
        os.close(up_read)
        os.close(down_write)
    return pid, held


def _run_child(
    order: WorkerOrder,
    descriptors: Sequence[int],
    down: int,
    up: int,
    others: Sequence[int],
) -> None:
    """Run the first child, and in it the worker; never returns."""
    code = 1
    try:
        for other in others:
            os.close(other)
        deadline = time.monotonic() + _SETUP_TIMEOUT_S
        spaces = enter(apart=order.apart)
        os.write(up, json.dumps(spaces).encode() + b"\n")
        private_id = _line(down, deadline) == "1"
        pid = os.fork()
        if pid:
            os.write(up, f"{pid}\n".encode())
            os._exit(0)
        live(order, descriptors, Setup(report=up, go=down, spaces=spaces, private_id=private_id))
        code = 0
    except OSError as error:
        os.write(up, f"!{error}\n".encode())
    finally:
        # Neither the zygote's loop nor anything registered for the exit may run here.
        os._exit(code)


def _give(order: WorkerOrder, owner: int) -> None:
    """Let a worker own its folders."""
    limits = order.limits
    os.chown(limits.scratch, owner, owner)
    if limits.build is not None and limits.build_writable:
        os.chown(limits.build, owner, owner)
        # What an earlier worker of the same candidate built there, however deep it lies.
        pending: list[str | Path] = [limits.build]
        while pending:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    os.chown(entry.path, owner, owner, follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)


def _abandon(first: int, worker: int | None) -> None:
    for pid in (worker, first):
        if pid is None:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def _line(descriptor: int, deadline: float) -> str:
    """Read one line byte by byte, so that nothing behind it is taken.

    Raises:
        _SetupFailed: The other side closed the pipe, or the deadline passed.
    """
    data = b""
    while not data.endswith(b"\n"):
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
            raise _SetupFailed("a step of its setup took too long")
        byte = os.read(descriptor, 1)
        if not byte:
            raise _SetupFailed("it ended during its setup")
        data += byte
    return data.decode().strip()
