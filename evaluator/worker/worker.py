"""The life of a worker: confined, it serves its role until the referee hangs up."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from evaluator.wire import Channel
from evaluator.worker.candidate_worker import CandidateWorker
from evaluator.worker.compat_worker import CompatWorker
from evaluator.worker.failures import Failure
from evaluator.worker.lift_worker import LiftWorker
from evaluator.worker.rates_worker import RatesWorker
from evaluator.worker.reference_worker import ReferenceWorker
from evaluator.worker.sandbox import Limits, close_all_but, confine, die_with_parent
from evaluator.worker.sanitizer_worker import SanitizerWorker
from evaluator.worker.serve import Handler, serve
from evaluator.worker.tensors import Memory
from evaluator.worker.trace_worker import TraceWorker

__all__ = [
    "GPU_ROLES",
    "MEMORY_OF_ROLE",
    "SANITIZER_ROLES",
    "TRUSTED_ROLES",
    "Setup",
    "WorkerOrder",
    "live",
]

MEMORY_OF_ROLE = {
    "reference": ("inputs", "state", "expected"),
    "candidate": ("inputs", "state", "outputs"),
    "cuda_reference": ("state", "signals"),
    "cuda_candidate": ("state", "signals"),
    "trace": (),
    "lift": (),
    "cuda_lift": (),
    "rates": (),
    "cuda_rates": (),
    "compat": (),
    "cuda_compat": (),
    "sanitizer": (),
    "cuda_sanitizer": (),
}
"""The shared memories that each role is given."""
LIFT_ROLES = frozenset({"lift", "cuda_lift"})
TRUSTED_ROLES = frozenset({"reference", "cuda_reference", "rates", "cuda_rates", *LIFT_ROLES})
SANITIZER_ROLES = frozenset({"sanitizer", "cuda_sanitizer"})
GPU_ROLES = frozenset(
    {
        "cuda_reference",
        "cuda_candidate",
        "cuda_rates",
        "cuda_lift",
        "cuda_compat",
        "cuda_sanitizer",
    }
)


class _Worker(Protocol):
    handlers: dict[str, Handler]

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOrder:
    """What to be.

    Attributes:
        role: A key of `MEMORY_OF_ROLE`.
        limits: What the worker may use.
        memory: Names of the shared memories, in the order of their descriptors.
        populate: Make the pages of private memories present at once.
    """

    role: str
    limits: Limits
    memory: Sequence[str]
    populate: bool = False

    @property
    def apart(self) -> bool:
        """Whether it sees no process but its own; see `namespaces.enter`."""
        return self.role != "cuda_reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a worker comes up.

    Attributes:
        report: Pipe on which the zygote is told, as JSON, the protections that hold.
        go: Pipe on which the zygote says that it has become this process's parent.
        spaces: Names of the namespaces that this process is in.
        private_id: It can take a user id that nobody else has.
    """

    report: int
    go: int
    spaces: Sequence[str]
    private_id: bool


def live(order: WorkerOrder, descriptors: Sequence[int], setup: Setup) -> None:
    """Be a worker; returns when the referee closes the channel.

    Args:
        order: What to be.
        descriptors: The channel, then the shared memories.
        setup: How it comes up.
    """
    close_all_but([*descriptors, setup.report, setup.go])
    channel, *memories = descriptors
    memory = _map_memory(order, memories)
    torch.set_num_threads(order.limits.threads)
    torch.set_grad_enabled(False)
    gc.enable()
    held = confine(order.limits, spaces=setup.spaces, private_id=setup.private_id)
    with os.fdopen(setup.report, "w") as pipe:
        pipe.write(json.dumps(held) + "\n")
    with os.fdopen(setup.go) as pipe:
        if not pipe.readline():
            return
    # The zygote's choice of a folder for temporary files is not for workers.
    tempfile.tempdir = None
    # Set earlier, it would take the exit of the first child, the parent until now, for the end.
    die_with_parent()
    worker = _worker(order.role, memory)
    serve(Channel.from_descriptor(channel), worker.handlers, worker.explain)


def _worker(role: str, memory: dict[str, Memory]) -> _Worker:
    if role == "reference":
        return ReferenceWorker(memory)
    if role == "candidate":
        return CandidateWorker(memory)
    if role == "trace":
        return TraceWorker()
    if role in LIFT_ROLES:
        return LiftWorker()
    if role in ("compat", "cuda_compat"):
        return CompatWorker(torch.device("cuda" if role == "cuda_compat" else "cpu"))
    if role in SANITIZER_ROLES:
        return SanitizerWorker("cuda" if role in GPU_ROLES else "cpu")
    if role in ("rates", "cuda_rates"):
        return RatesWorker(torch.device("cuda" if role == "cuda_rates" else "cpu"))
    # These need not be there on a host without a GPU.
    from evaluator.worker.cuda.candidate import CudaCandidateWorker
    from evaluator.worker.cuda.driver import GpuDriver
    from evaluator.worker.cuda.reference import CudaReferenceWorker
    from evaluator.worker.cuda.seedling import plant

    if role == "cuda_reference":
        return CudaReferenceWorker(memory, GpuDriver())
    plant(Path(os.environ["TRITON_CACHE_DIR"]))
    return CudaCandidateWorker(memory, GpuDriver())


def _map_memory(order: WorkerOrder, descriptors: Sequence[int]) -> dict[str, Memory]:
    """Map the shared memories; a candidate's code finds no descriptor of any."""
    memory = {}
    for name, descriptor in zip(order.memory, descriptors, strict=True):
        candidate = order.role not in TRUSTED_ROLES
        # Of the signals a candidate's process maps a page of its own, before it loads any code.
        private = candidate and name not in ("outputs", "signals")
        memory[name] = Memory(descriptor, private=private, populate=order.populate)
        if candidate and name == "outputs":
            memory[name].map_for_good()
    return memory
