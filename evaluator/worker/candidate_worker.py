"""The candidate worker: builds a candidate, and calls it as it is told.

It shares a process with the candidate, so nothing it says is believed: what counts are the bytes
it leaves in the outputs' memory, and the referee's clock.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.wire import ValueSpec, decode_value
from evaluator.worker.census import take_census
from evaluator.worker.failures import Failure, describe
from evaluator.worker.legs import Leg, write_outputs
from evaluator.worker.poison import poisoned
from evaluator.worker.program import load_program
from evaluator.worker.serve import Handler
from evaluator.worker.state import BufferKeeper, load_state
from evaluator.worker.tensors import Memory, read

__all__ = ["CandidateWorker"]


@dataclass(slots=True, kw_only=True)
class _Program:
    """One open candidate.

    Attributes:
        request: What it was opened with.
        model: Its `ModelNew`, or what that constructed.
        keeper: Puts its buffers back.
        inputs: Specs of an input set.
        state: Specs of the published state.
        output_bytes: Sizes of its outputs, for poisoning.
    """

    request: dict[str, Any]
    model: Any
    keeper: BufferKeeper | None
    inputs: tuple[ValueSpec, ...]
    state: tuple[ValueSpec, ...]
    output_bytes: list[int] = field(default_factory=list)


class CandidateWorker:
    """Serves the ops of a candidate worker.

    Args:
        memory: The shared memories "inputs", "state" and "outputs".
    """

    def __init__(self, memory: dict[str, Memory]) -> None:
        self._memory = memory
        self._leg = Leg()
        self._programs: dict[int, _Program] = {}
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "weights": self._weights,
            "call": self._call,
            "census": self._census,
            "leg": self._run_leg,
            "ship": self._ship,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the candidate's code raised into a failure."""
        file = _file(request.get("index", 0))
        if request.get("op") == "open":
            status, reason = Status.BUILD_ERROR, "build_raised"
        else:
            status, reason = Status.RUNTIME_ERROR, "forward_raised"
        return describe(error, file=file, status=status, reason=reason)

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        program = _Program(
            request=request,
            model=None,
            keeper=None,
            inputs=_specs(request["inputs"]),
            state=_specs(request["state"]),
            output_bytes=[spec.num_bytes for spec in _specs(request.get("outputs") or ())],
        )
        program.model = _construct(request)
        if isinstance(program.model, nn.Module):
            program.keeper = BufferKeeper(program.model)
        self._programs[request["index"]] = program
        return {}

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._program(request)
        if not isinstance(program.model, nn.Module):
            return {"loaded": False}
        loaded = load_state(program.model, self._memory["state"], program.state)
        if loaded and program.keeper is not None:
            program.keeper.keep()
        return {"loaded": loaded}

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._program(request)
        self._leg.clear()
        arguments = self._inputs(program, request["base"])
        with poisoned(program.output_bytes) if request.get("poison") else nullcontext():
            outputs = program.model(*arguments)
        if program.keeper is not None:
            program.keeper.put_back()
        written = write_outputs(self._memory["outputs"], request.get("at", 0), outputs)
        program.output_bytes = [output["bytes"] for output in written["outputs"]]
        return written

    def _census(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._program(request)
        arguments = [self._inputs(program, request["base"]) for _ in range(request["calls"])]
        folders = [os.environ["EVOKERNEL_BUILD_DIR"], os.environ["TMPDIR"]]

        def construct() -> Any:  # noqa: ANN401 - whatever the candidate constructs
            model = _construct(program.request)
            if isinstance(model, nn.Module):
                load_state(model, self._memory["state"], program.state)
            return model

        return take_census(construct, arguments, folders)

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        if not request["bases"]:
            return {}
        program = self._program(request)
        if program.keeper is not None:
            program.keeper.put_back()
        memory = self._memory["inputs"]
        return self._leg.run(program.model, memory, program.inputs, request["bases"])

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        output = self._leg.output(request["call"])
        return write_outputs(self._memory["outputs"], request["at"], output)

    def _program(self, request: dict[str, Any]) -> _Program:
        program = self._programs.get(request["index"])
        if program is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "the candidate is not open")
        return program

    def _inputs(self, program: _Program, base: int) -> list[object]:
        buffer: ctypes.Array[ctypes.c_char] = self._memory["inputs"].buffer()
        return [read(buffer, base, spec) for spec in program.inputs]


def _construct(request: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the candidate constructs
    index = request["index"]
    torch.manual_seed(request["seed"])
    name = f"evokernel_candidate_{index}"
    program = load_program(request["source"], name, _file(index), ("ModelNew",))
    init = decode_value(request["init"])
    torch.manual_seed(request["seed"])
    return program["ModelNew"](*init)


def _file(index: int) -> str:
    return f"candidate_{index}.py"


def _specs(data: Sequence[object]) -> tuple[ValueSpec, ...]:
    return tuple(ValueSpec.from_json(item) for item in data)
