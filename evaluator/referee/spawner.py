"""Starts workers through the zygote, watches their memory, and ends them.

One zygote serves a referee: forking from it takes milliseconds where a fresh interpreter with
torch takes seconds. The zygote is trusted; what it forks for a candidate is not.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.gate import runtime_folder
from evaluator.processes import kill_tree, remove_folder, worker_environment
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.scheduling import prefer_process, thread_settings
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.watchdog import Watchdog
from evaluator.wire import Channel, ChannelClosed, FrameError
from problems.errors import EvaluatorError, WorkerDied, WorkerTimeout

__all__ = ["Spawner", "Worker", "WorkerPlan"]

EXIT_PATIENCE_S = 2.0
REAP_PAUSE_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What a worker is to be given.

    Attributes:
        role: "reference", "candidate", "cuda_reference", "cuda_candidate", "trace", "lift",
            "cuda_lift", "rates", "cuda_rates", "compat", "cuda_compat", "sanitizer" or
            "cuda_sanitizer".
        cpus: Cores that it may use.
        threads: Threads that it may use.
        memory_bytes: Memory from which on it is killed; None for what is trusted.
        memory: Shared files, in the order that its role expects.
        build: Folder of build artefacts, or None.
        build_writable: Whether it may write there.
        timed: Whether its speed counts: it then precedes other processes where that is permitted.
        aside: Whether it starts like any other process: `Worker.promote` lets it be timed.
        readable: Further folders whose files it may read and run.
    """

    role: str
    cpus: tuple[int, ...]
    threads: int
    memory_bytes: int | None
    memory: Sequence[SharedMemory] = ()
    build: Path | None = None
    build_writable: bool = False
    timed: bool = False
    aside: bool = False
    readable: Sequence[Path] = ()


class Worker:
    """One worker process, as the referee holds it."""

    def __init__(
        self, spawner: Spawner, channel: Channel, reply: dict[str, Any], scratch: Path
    ) -> None:
        self._spawner = spawner
        self._channel = channel
        self._scratch = scratch
        self._exit: int | None = None
        self.ended = False
        self.lost = False
        """Whether the zygote ended, and all its workers with it: no fault of this one."""
        self.pid = int(reply["pid"])
        self.isolation = str(reply.get("isolation", ""))

    def request(self, op: str, timeout_s: float, **fields: object) -> dict[str, Any]:
        """Send a request and return its reply.

        Raises:
            FrameError: What came back is no reply, or came before the request.
            ChannelClosed: The process ended or closed its channel.
            WorkerTimeout: The reply was not there in time.
        """
        self.post(op, timeout_s, **fields)
        return self.answer(op, timeout_s)

    def post(self, op: str, timeout_s: float, **fields: object) -> None:
        """Send a request whose reply is fetched later, by `answer`.

        Raises:
            FrameError: Something came back before it.
            ChannelClosed: The process ended or closed its channel.
            WorkerTimeout: The process did not read it in time.
        """
        if self._channel.pending():
            raise FrameError(f"a reply was there before the request {op!r}")
        self._channel.send({"op": op, **fields}, timeout_s=timeout_s)

    def answered(self, timeout_s: float) -> bool:
        """Tell whether a reply to what was posted begins to come in time."""
        return self._channel.pending(timeout_s)

    def answer(self, op: str, timeout_s: float) -> dict[str, Any]:
        """Wait for the reply to the request that was posted; raises as `request`."""
        reply = self._channel.receive(timeout_s=timeout_s)
        if not isinstance(reply.get("ok"), bool):
            raise FrameError(f"the reply to {op!r} says neither yes nor no")
        return reply

    def stop(self) -> None:
        """Halt every thread of the process; it gets no time until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def promote(self, cpus: Sequence[int]) -> None:
        """Move a process of one thread to the cores on which it is timed; it precedes others."""
        if not self.ended:
            os.sched_setaffinity(self.pid, cpus)
            prefer_process(self.pid)

    def pin(self, cpus: Sequence[int]) -> None:
        """Move every thread of the process to some cores."""
        threads: list[Path] = []
        with suppress(OSError):  # It may have ended a moment ago; whoever asks it next is told.
            threads = [] if self.ended else list(Path(f"/proc/{self.pid}/task").iterdir())
        for thread in threads:
            with suppress(OSError):
                os.sched_setaffinity(int(thread.name), cpus)

    def _signal(self, number: int) -> None:
        if not self.ended:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    @property
    def over_memory(self) -> bool:
        """Whether the watchdog killed it for its memory."""
        return self._spawner.watchdog.killed(self.pid)

    @property
    def over_disk(self) -> bool:
        """Whether the watchdog killed it for what it wrote to its build folder."""
        return self._spawner.watchdog.filled(self.pid)

    def end(self, *, patience_s: float = 0.0) -> int | None:
        """End the process and all it has started; may be called twice.

        Args:
            patience_s: How long to wait for it to end by itself, where it is about to.

        Returns:
            Exit code, negative for a signal; None where unknown.
        """
        if not self.ended:
            self._exit = self._spawner.reap(self, patience_s)
            self.ended = True
            self._channel.close()
            remove_folder(self._scratch)
        return self._exit


class Spawner:
    """The zygote and its workers. Methods may be called from several threads."""

    def __init__(
        self,
        deadlines: Deadlines,
        cpus: Sequence[int],
        *,
        environment: Mapping[str, str] | None = None,
        preload: str | None = None,
    ) -> None:
        """Start with nothing.

        Args:
            deadlines: How long each step may take.
            cpus: Cores on which the zygote does its work, off those that are timed.
            environment: The whole environment of the zygote; by default the CPU's.
            preload: What else the zygote imports: "cuda", or nothing.
        """
        self._environment = worker_environment() if environment is None else dict(environment)
        self._preload = () if preload is None else (preload,)
        self._deadlines = deadlines
        self._zygote_cpus = cpus
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._workers: dict[int, Worker] = {}
        self._folder: Path | None = None
        self._cpus = os.sched_getaffinity(0)
        self.watchdog = Watchdog()

    def start(self) -> None:
        """Start the zygote; done at the first spawn where not called before.

        Raises:
            EvaluatorError: It did not come up.
        """
        with self._lock:
            self._zygote()

    def spawn(self, plan: WorkerPlan) -> Worker:
        """Fork a worker.

        Raises:
            EvaluatorError: The zygote could not; the message says why.
        """
        with self._lock:
            zygote = self._zygote()
            scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=self._folder))
            ours, theirs = Channel.pair()
            try:
                reply = zygote.request(
                    _spawn_message(plan, scratch),
                    timeout_s=self._deadlines.spawn_s,
                    descriptors=[theirs.fileno(), *(m.descriptor for m in plan.memory)],
                )
            except EvaluatorError as error:
                ours.close()
                self._drop_zygote()
                raise WorkerDied(f"the zygote ended while starting a worker: {error}") from error
            finally:
                theirs.close()
            if not reply.get("ok"):
                ours.close()
                raise EvaluatorError(
                    f"no {plan.role} worker could be started: {reply.get('log', 'no reason given')}"
                )
            worker = Worker(self, ours, reply, scratch)
            self._workers[worker.pid] = worker
        if plan.timed and not plan.aside:
            prefer_process(worker.pid)
        if plan.memory_bytes is not None:
            folder = plan.build if plan.build_writable else None
            self.watchdog.watch(worker.pid, plan.memory_bytes, folder)
        return worker

    def reap(self, worker: Worker, patience_s: float) -> int | None:
        """Kill a worker and return its exit code; see `Worker.end`."""
        with self._lock:
            zygote = self._channel
            if self._workers.pop(worker.pid, None) is None:
                zygote = None
        if zygote is not None:
            worker.resume()
            if not patience_s:
                kill_tree(worker.pid)
        code: int | None = None
        deadline = time.monotonic() + (patience_s or EXIT_PATIENCE_S)
        # A process with a GPU's memory takes long to end: others are started meanwhile.
        while zygote is not None and code is None:
            is_last = time.monotonic() >= deadline
            code = self._exit_of(worker, zygote, kill=is_last)
            if is_last or worker.lost:
                break
            if code is None:
                time.sleep(REAP_PAUSE_S)
        self.watchdog.forget(worker.pid)
        return code

    def _exit_of(self, worker: Worker, zygote: Channel, *, kill: bool) -> int | None:
        """Ask a worker's zygote for its exit code; None where it has not ended, or both are lost.

        Args:
            worker: Was asked to end, or killed.
            zygote: Has started it.
            kill: Whether it is killed now, and waited for.
        """
        with self._lock:
            if self._channel is not zygote:
                worker.lost = True
                return None
            message = {"op": "reap", "pid": worker.pid, "kill": kill, "timeout_s": 0.0}
            try:
                reply = zygote.request(message, timeout_s=self._deadlines.spawn_s)
            except EvaluatorError:
                worker.lost = True
                self._drop_zygote()
                return None
        code = reply.get("exit")
        return code if isinstance(code, int) else None

    def build_folder(self) -> Path:
        """Make an empty private folder for one candidate's build artefacts."""
        self.start()
        folder = Path(tempfile.mkdtemp(prefix="build-", dir=self._folder))
        # Workers have an id each: the one that times reads what the one that builds wrote.
        folder.chmod(0o755)
        return folder

    def kill_workers(self) -> None:
        """Kill every worker there is now; whoever waits for one of them is told that it ended."""
        for worker in list(self._workers.values()):
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)

    def close(self) -> None:
        """End every worker and the zygote."""
        for worker in list(self._workers.values()):
            worker.end()
        with self._lock:
            self._drop_zygote()
            if self._folder is not None:
                remove_folder(self._folder)
                self._folder = None
        self.watchdog.close()

    def _zygote(self) -> Channel:
        if self._channel is not None and self._process is not None:
            if self._process.poll() is None:
                return self._channel
            self._drop_zygote()
        if self._folder is None:
            self._folder = _own_folder()
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        channel = Channel(left)
        # Workers inherit what the zygote may use, whatever thread happens to start it.
        with right, thread_settings(self._cpus, preferred=False):
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [
                    *(sys.executable, "-P", "-m", "evaluator.worker.zygote"),
                    *(str(right.fileno()), *self._preload),
                ],
                pass_fds=[right.fileno()],
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the referee's process, which ends this one.
            )
        try:
            ready = channel.receive(timeout_s=self._deadlines.start_s)
        except (ChannelClosed, FrameError, WorkerTimeout) as error:
            self._process.kill()
            self._process.wait()
            channel.close()
            raise EvaluatorError(
                f"the process that starts workers did not come up: {error}; "
                "run 'evokernel doctor' to see what is missing"
            ) from error
        assert ready.get("ok") is True, f"an unexpected greeting: {ready}"
        os.sched_setaffinity(self._process.pid, self._zygote_cpus)
        self._channel = channel
        return channel

    def _drop_zygote(self) -> None:
        for worker in self._workers.values():
            worker.lost = True
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.wait()
            self._process = None


def _spawn_message(plan: WorkerPlan, scratch: Path) -> dict[str, Any]:
    return {
        "op": "spawn",
        "role": plan.role,
        "cpus": list(plan.cpus),
        "threads": plan.threads,
        "memory_bytes": plan.memory_bytes,
        "scratch": str(scratch),
        "memory": [memory.name for memory in plan.memory],
        "build": str(plan.build) if plan.build else None,
        "build_writable": plan.build_writable,
        "populate": plan.timed,
        "readable": [str(folder) for folder in plan.readable],
    }


def _own_folder() -> Path:
    """Make a folder for this process's workers, and remove those of processes that were killed."""
    runtime = runtime_folder()
    for folder in runtime.glob("workers-*-*"):
        owner = folder.name.split("-")[1]
        if not Path("/proc", owner).exists():
            remove_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"workers-{os.getpid()}-", dir=runtime))
