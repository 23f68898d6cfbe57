"""Runs a zygote and its workers the way a referee does, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.processes import worker_environment
from evaluator.wire import Channel, ValueSpec, layout

REPLY_TIMEOUT_S = 60.0
ZYGOTE_PROGRAM = ("-m", "evaluator.worker.zygote")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHandle:
    """A spawned worker."""

    channel: Channel
    pid: int
    isolation: str
    scratch: Path

    def ask(self, op: str, *, timeout_s: float = REPLY_TIMEOUT_S, **fields: Any) -> Any:  # noqa: ANN401
        return self.channel.request({"op": op, **fields}, timeout_s=timeout_s)

    def demand(self, op: str, **fields: Any) -> Any:  # noqa: ANN401
        reply = self.ask(op, **fields)
        assert reply["ok"], reply
        return reply


class ZygoteHarness:
    """A zygote in its own process."""

    def __init__(self, folder: Path, *, program: Sequence[str] = ZYGOTE_PROGRAM) -> None:
        self.folder = folder
        self.channel, theirs = Channel.pair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *program, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=worker_environment(),
                cwd=folder,
                stdin=subprocess.DEVNULL,
            )
        self.hello = self.channel.receive(timeout_s=REPLY_TIMEOUT_S)

    def spawn(
        self,
        role: str = "candidate",
        memory: Mapping[str, int] | None = None,
        **fields: object,
    ) -> WorkerHandle:
        scratch = Path(tempfile.mkdtemp(prefix="scratch-", dir=self.folder))
        ours, theirs = Channel.pair()
        memory = memory or {}
        request = {
            "op": "spawn",
            "role": role,
            "cpus": [0],
            "threads": 1,
            "memory_bytes": 4 << 30,
            "scratch": str(scratch),
            "memory": list(memory),
            **fields,
        }
        with theirs:
            reply = self.channel.request(
                request, timeout_s=30, descriptors=[theirs.fileno(), *memory.values()]
            )
        assert reply["ok"], reply
        return WorkerHandle(
            channel=ours, pid=reply["pid"], isolation=reply["isolation"], scratch=scratch
        )

    def reap(self, worker: WorkerHandle, *, timeout_s: float = 10, kill: bool = True) -> int | None:
        reply = self.channel.request(
            {"op": "reap", "pid": worker.pid, "timeout_s": timeout_s, "kill": kill}, timeout_s=30
        )
        worker.channel.close()
        code = reply["exit"]
        assert code is None or isinstance(code, int)
        return code

    def kill(self, worker: WorkerHandle) -> int | None:
        os.kill(worker.pid, signal.SIGKILL)
        return self.reap(worker)

    def close(self) -> None:
        self.channel.close()
        self.process.wait(timeout=30)


class ProblemHarness:
    """One problem: its reference worker, its shared memories, and candidates for it."""

    def __init__(
        self,
        zygote: ZygoteHarness,
        source: str,
        *,
        sets: int = 8,
        domains: Sequence[Mapping[str, object]] = (),
        precision: str = "fp32",
    ) -> None:
        self.zygote = zygote
        self.memory = {
            name: os.memfd_create(name, os.MFD_CLOEXEC) for name in ("inputs", "state", "expected")
        }
        self.reference = zygote.spawn("reference", self.memory)
        self.opened = self.reference.demand(
            "open", source=source, precision=precision, seed=7, domains=list(domains)
        )
        self.inputs = [ValueSpec.from_json(spec) for spec in self.opened["inputs"]]
        outputs = [ValueSpec.from_json(spec) for spec in self.opened["outputs"]]
        state = [ValueSpec.from_json(spec) for spec in self.opened["state"]]
        self.set_bytes = max(layout(self.inputs)[1], 64)
        self.output_bytes = 2 * layout(outputs)[1] + 4096
        os.ftruncate(self.memory["inputs"], sets * self.set_bytes)
        os.ftruncate(self.memory["state"], max(layout(state)[1], 64))
        os.ftruncate(self.memory["expected"], 4 * self.output_bytes)
        self.reference.demand("weights", seed=None)
        for number in range(sets):
            self.draw(number)

    def draw(
        self, number: int, variant: str = "own", seed: int | None = None, *, runs: bool = True
    ) -> bool:
        reply = self.reference.demand(
            "draw",
            base=number * self.set_bytes,
            seed=100 + number if seed is None else seed,
            variant=variant,
            runs=runs,
        )
        return bool(reply["applied"])

    def input(self, number: int, which: int = 0) -> NDArray[Any]:
        spec = self.inputs[which]
        return _array(self.memory["inputs"], number * self.set_bytes + spec.offset, spec)

    def expected(self, number: int, op: str = "expect") -> list[NDArray[Any]]:
        reply = self.reference.demand(op, base=number * self.set_bytes, at=0)
        return read_arrays(self.memory["expected"], reply["outputs"])

    def candidate(self, source: str, **fields: object) -> CandidateHandle:
        """Spawn a worker and open a candidate in it; the reply is in `opened`."""
        outputs = os.memfd_create("outputs", os.MFD_CLOEXEC)
        os.ftruncate(outputs, self.output_bytes)
        memory = {
            "inputs": self.memory["inputs"],
            "state": self.memory["state"],
            "outputs": outputs,
        }
        worker = self.zygote.spawn("candidate", memory, **fields)
        opened = worker.ask(
            "open",
            index=0,
            source=source,
            init=self.opened["init"],
            inputs=self.opened["inputs"],
            state=self.opened["state"],
            conversions=self.opened["conversions"],
            outputs=self.opened["outputs"],
            seed=7,
        )
        return CandidateHandle(worker=worker, opened=opened, outputs=outputs, problem=self)

    def close(self) -> None:
        self.zygote.reap(self.reference, timeout_s=0)
        for descriptor in self.memory.values():
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateHandle:
    """A candidate in its worker."""

    worker: WorkerHandle
    opened: dict[str, Any]
    outputs: int
    problem: ProblemHarness

    def call(self, number: int, *, poison: bool = True) -> list[NDArray[Any]]:
        base = number * self.problem.set_bytes
        reply = self.worker.demand("call", index=0, base=base, poison=poison)
        return read_arrays(self.outputs, reply["outputs"])

    def close(self) -> int | None:
        code = self.problem.zygote.reap(self.worker, timeout_s=0)
        os.close(self.outputs)
        return code


def read_arrays(descriptor: int, specs: Sequence[object]) -> list[NDArray[Any]]:
    parsed = [ValueSpec.from_json(spec) for spec in specs]
    return [_array(descriptor, spec.offset, spec) for spec in parsed]


def _array(descriptor: int, offset: int, spec: ValueSpec) -> NDArray[Any]:
    data = os.pread(descriptor, spec.num_bytes, offset)
    if spec.dtype.startswith("python:"):
        return np.frombuffer(data, dtype=np.float64 if "float" in spec.dtype else np.int64)
    if spec.dtype == "bfloat16":
        wide = np.frombuffer(data, dtype=np.uint16).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(spec.shape)
    return np.frombuffer(data, dtype=spec.dtype).reshape(spec.shape)


_PROBE = """
import json


def probe():
{body}


class ModelNew:
    def __init__(self):
        raise RuntimeError("PROBE" + json.dumps(probe()))
"""


def probe(worker: WorkerHandle, body: str) -> Any:  # noqa: ANN401
    """Run statements inside a worker and return what they return."""
    source = _PROBE.format(body=textwrap.indent(textwrap.dedent(body).strip(), "    "))
    reply = worker.ask("open", source=source, **EMPTY_CANDIDATE)
    assert not reply["ok"]
    _, mark, data = reply["log"].partition("RuntimeError: PROBE")
    assert mark, reply
    return json.loads(data)


EMPTY_CANDIDATE: dict[str, Any] = {
    "index": 0,
    "init": {"tuple": []},
    "inputs": [],
    "state": [],
    "conversions": {},
    "seed": 7,
}


OpenProblem = Callable[..., ProblemHarness]
"""What the fixture `problem` is: `ProblemHarness` without its zygote."""
