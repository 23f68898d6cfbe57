"""A stand-in for a GPU: the whole protocol of the CUDA referee, in one process, on the CPU.

Workers are threads that serve the real handlers over real channels; memory that is "exported" is
named by its address, which is valid everywhere in one process. What a GPU alone can show (contexts,
events, isolation) is tested by `test_cuda.py` on one.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from evaluator.gate import Gate
from evaluator.referee.cuda.arena import CudaArena, CudaBench
from evaluator.referee.cuda.draws import CudaCheckSet
from evaluator.referee.cuda.monitor import Monitor
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.turns import Turns
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets
from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from evaluator.wire import Channel, ValueSpec
from evaluator.worker.cuda.candidate import CudaCandidateWorker
from evaluator.worker.cuda.reference import CudaReferenceWorker
from evaluator.worker.serve import Handler, serve
from evaluator.worker.tensors import Memory, torch_dtype
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["StandInDriver", "StandInSpawner", "open_arena"]

HANDLE_DIGITS = 128
_SEEDED = frozenset({"open", "draw", "mix", "stock", "weights"})
"""Ops that seed torch's generator, which threads share and processes do not: one at a time."""


class StandInEvent:
    """The host's clock."""

    def __init__(self) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: Any) -> float:  # noqa: ANN401
        return 1000 * float(end.at - self.at)


class StandInDriver:
    """The CPU, as if it were a GPU.

    It works at once, so that nothing can be queued: what a candidate's process gives it behind a
    wait keeps that process waiting, and what the reference's process does is done before.
    """

    device = torch.device("cpu")

    def __init__(self, *, waits: bool) -> None:
        self.allocations: dict[int, torch.Tensor] = {}
        self.waits = waits

    def start(self) -> None:
        return

    def allocate(self, num_bytes: int) -> int:
        block = torch.empty(num_bytes, dtype=torch.uint8)
        self.allocations[block.data_ptr()] = block
        return block.data_ptr()

    def release(self, address: int) -> None:
        del self.allocations[address]

    def allocation(self, address: int) -> tuple[int, int]:
        return address, address

    def export(self, base: int) -> str:
        return f"{base:0{HANDLE_DIGITS}x}"

    def attach(self, handle: str) -> tuple[int, int]:
        return int(handle, 16), 1 << 40

    def detach(self, address: int) -> None:
        return

    def tensor(self, address: int, spec: ValueSpec) -> torch.Tensor:
        dtype = torch_dtype(spec.dtype)
        if spec.numel == 0:
            return torch.empty(spec.shape, dtype=dtype)
        buffer = (ctypes.c_char * spec.num_bytes).from_address(address)
        return torch.frombuffer(buffer, dtype=dtype).as_strided(spec.shape, spec.stride)

    def synchronize(self) -> None:
        return

    def event(self) -> StandInEvent:
        return StandInEvent()

    def flush_buffer(self) -> torch.Tensor:
        return torch.empty(1 << 20, dtype=torch.uint8)

    @property
    def crowded(self) -> bool:
        return False

    @property
    def memory(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def trim(self) -> None:
        return

    def register(self, address: int, num_bytes: int) -> int:
        del num_bytes
        return address

    def queue_wait(self, address: int, value: int) -> None:
        word = ctypes.c_uint32.from_address(address)
        while self.waits and word.value != value:
            time.sleep(0)

    def queue_write(self, address: int, value: int) -> None:
        ctypes.c_uint32.from_address(address).value = value


class StandInWorker(Worker):
    """A thread that serves a role; signals do not reach it."""

    def stop(self) -> None:
        return

    def resume(self) -> None:
        return

    def pin(self, cpus: Any) -> None:  # noqa: ANN401
        del cpus


class StandInSpawner(Spawner):
    """Starts threads in place of processes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Deadlines(), sorted(os.sched_getaffinity(0)))
        self.folder = folder
        self._seeding = threading.Lock()

    def spawn(self, plan: WorkerPlan) -> Worker:
        ours, theirs = Channel.pair()
        apart = plan.role == "cuda_candidate"
        memory = {
            m.name: Memory(os.dup(m.descriptor), private=apart and m.name == "state")
            for m in plan.memory
        }
        kinds = {"cuda_reference": CudaReferenceWorker, "cuda_candidate": CudaCandidateWorker}
        worker: Any = kinds[plan.role](memory, StandInDriver(waits=apart))
        for op in _SEEDED & worker.handlers.keys():
            worker.handlers[op] = self._alone(worker.handlers[op])

        def live() -> None:
            torch.set_grad_enabled(False)
            with theirs:
                serve(theirs, worker.handlers, worker.explain)

        threading.Thread(target=live, daemon=True).start()
        scratch = self.folder / f"scratch-{id(worker)}"
        return StandInWorker(self, ours, {"pid": 0, "isolation": "none"}, scratch)

    def _alone(self, handler: Handler) -> Handler:
        def served(request: dict[str, Any]) -> dict[str, Any]:
            with self._seeding:
                return handler(request)

        return served

    def reap(self, worker: Worker, patience_s: float) -> int | None:
        del worker, patience_s
        return 0

    def build_folder(self) -> Path:
        folder = self.folder / "build"
        folder.mkdir(exist_ok=True)
        return folder


@contextmanager
def open_arena(
    problem: Problem,
    folder: Path,
    *,
    graph: OperatorGraph | None = None,
    memory_bytes: int = 32 << 30,
    monitor: Monitor | None = None,
    verifies: bool = False,
) -> Iterator[tuple[CudaArena, CudaSession, Sequence[CudaCheckSet]]]:
    """Open a problem on the stand-in; settled, with its check sets."""
    spawner = StandInSpawner(folder)
    cores = CoreSets(timed=(0,), other=(0,))
    bench = CudaBench(
        cores=cores,
        gate=Gate("stand-in", folder),
        deadlines=Deadlines(),
        candidate_bytes=1 << 30,
        spawner=spawner,
        monitor=monitor,
    )
    plan = WorkerPlan(role="cuda_reference", cpus=(0,), threads=1, memory_bytes=None)
    session = CudaSession(problem, graph, spawner, plan, bench.deadlines, memory_bytes)
    try:
        session.fill()
        session.settle()
        if not session.memory.in_turn:
            arena = CudaArena(bench, session, session.checks, verifies=verifies)
            yield arena, session, session.checks
            return

        def draw(number: int) -> CudaCheckSet:
            with bench.gate.shared():
                return session.draws.draw_in_turn(number)

        turns = session.turns = Turns(nullcontext, lambda: False, draw, session.rest)
        with turns.candidate() as turn:
            sets = session.draws.checks_in_turn
            yield CudaArena(bench, session, sets, turn), session, sets
    finally:
        session.close()
