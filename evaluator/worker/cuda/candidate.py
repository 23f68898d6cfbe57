"""The candidate worker on a GPU: builds a candidate, and calls it as it is told.

It shares a process with the candidate, so nothing it says is believed: outputs are read by the
reference's process where they lie, and its times must agree with the referee's clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.wire import ValueSpec, decode_value
from evaluator.worker.cuda.census import take_census
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.legs import Leg
from evaluator.worker.cuda.rehearsal import compile_errors, rehearsing
from evaluator.worker.cuda.rooms import set_bytes
from evaluator.worker.cuda.shipping import Handles, describe_outputs
from evaluator.worker.failures import Failure, describe
from evaluator.worker.legs import tensors_of
from evaluator.worker.program import load_program
from evaluator.worker.serve import Handler
from evaluator.worker.state import BufferKeeper, load_state
from evaluator.worker.tensors import Memory

__all__ = ["CudaCandidateWorker"]

_POISON_BYTE = 0xFF
"""Every floating-point format reads as NaN, every integer as -1."""


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


class CudaCandidateWorker:
    """Serves the ops of a candidate worker on a GPU.

    Args:
        memory: The shared memory "state".
        driver: The device.
    """

    def __init__(self, memory: dict[str, Memory], driver: Driver) -> None:
        self._memory = memory
        self._driver = driver
        self._leg = Leg(driver)
        self._programs: dict[int, _Program] = {}
        self._rooms: dict[str, int] = {}
        self._kept: object = None
        self._handles: Handles = {}
        self.handlers: dict[str, Handler] = {
            "attach": self._attach,
            "open": self._open,
            "weights": self._weights,
            "call": self._call,
            "leg": self._run_leg,
            "ship": self._ship,
            "census": self._census,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the candidate's code raised into a failure."""
        file = _file(request.get("index", 0))
        if request.get("op") == "open":
            status, reason = Status.BUILD_ERROR, "build_raised"
        else:
            status, reason = Status.RUNTIME_ERROR, "forward_raised"
        return describe(error, file=file, status=status, reason=reason)

    def _attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create the context, and map a room of the reference's process."""
        self._driver.start()
        address, _ = self._driver.attach(request["handle"])
        self._rooms[request["room"]] = address + request["offset"]
        return {}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        model = _construct(request, self._driver.device)
        program = _Program(
            request=request,
            model=model,
            keeper=BufferKeeper(model) if isinstance(model, nn.Module) else None,
            inputs=_specs(request["inputs"]),
            state=_specs(request["state"]),
            output_bytes=[spec.num_bytes for spec in _specs(request["outputs"])],
        )
        self._programs[request["index"]] = program
        self._rehearse(program, request["numbers"])
        return {}

    def _rehearse(self, program: _Program, numbers: Sequence[object]) -> None:
        """Compile what the first call would compile; it fails here only where that does."""
        inputs = self._inputs(program, "check", 0, numbers)
        unbuildable = compile_errors()
        try:
            with rehearsing():
                program.model(*inputs)
        except unbuildable as error:
            raise describe(
                error,
                file=_file(program.request["index"]),
                status=Status.BUILD_ERROR,
                reason="compile_failed",
            ) from error
        except Exception:  # noqa: BLE001 - a rehearsal may fail for its garbage: the call will tell
            return
        finally:
            if program.keeper is not None:
                program.keeper.put_back()

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
        self._kept = None
        arguments = self._inputs(program, "check", 0, request["numbers"])
        self._poison(program.output_bytes)
        outputs = program.model(*arguments)
        self._driver.synchronize()
        if program.keeper is not None:
            program.keeper.put_back()
        self._kept = outputs
        described = describe_outputs(self._driver, outputs, self._handles)
        program.output_bytes = [output["bytes"] for output in described["outputs"]]
        return described

    def _poison(self, sizes: Sequence[int]) -> None:
        """Fill the blocks that the next outputs will most likely be given."""
        device = self._driver.device
        blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes if size]
        for block in blocks:
            block.fill_(_POISON_BYTE)

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._program(request)
        self._kept = None
        if program.keeper is not None:
            program.keeper.put_back()
        arguments = [
            self._inputs(program, request["room"], place, numbers)
            for place, numbers in enumerate(request["numbers"])
        ]
        times_ms = self._leg.run(program.model, arguments)
        outputs = [describe_outputs(self._driver, one, self._handles) for one in self._leg.outputs]
        return {"times_ms": times_ms, "calls": outputs}

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copy a kept output to memory of this process's own, row after row."""
        output = self._kept if request["call"] is None else self._leg.output(request["call"])
        tensors, several = tensors_of(output, self._driver.device.type)
        copies = [
            torch.clone(tensor.detach(), memory_format=torch.contiguous_format)
            for tensor in tensors
        ]
        self._kept = copies
        self._driver.synchronize()
        return describe_outputs(self._driver, copies if several else copies[0], self._handles)

    def _census(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._program(request)
        arguments = self._inputs(program, "check", 0, request["numbers"])
        folders = [os.environ["EVOKERNEL_BUILD_DIR"], os.environ["TMPDIR"]]
        return take_census(program.model, arguments, request["calls"], folders)

    def _program(self, request: dict[str, Any]) -> _Program:
        program = self._programs.get(request["index"])
        if program is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "the candidate is not open")
        return program

    def _inputs(
        self, program: _Program, room: str, place: int, numbers: Sequence[object]
    ) -> list[object]:
        """Values of one input set: fresh tensors over a place of a room, and plain numbers."""
        base = self._rooms[room] + place * set_bytes(program.inputs)
        return [
            decode_value(number)
            if spec.dtype.startswith("python:")
            else self._driver.tensor(base + spec.offset, spec)
            for spec, number in zip(program.inputs, numbers, strict=True)
        ]


def _construct(request: dict[str, Any], device: torch.device) -> Any:  # noqa: ANN401
    index = request["index"]
    torch.manual_seed(request["seed"])
    name = f"evokernel_candidate_{index}"
    program = load_program(request["source"], name, _file(index), ("ModelNew",))
    init = decode_value(request["init"])
    torch.manual_seed(request["seed"])
    model = program["ModelNew"](*init)
    return model.to(device) if isinstance(model, nn.Module) else model


def _file(index: int) -> str:
    return f"candidate_{index}.py"


def _specs(data: Sequence[object]) -> tuple[ValueSpec, ...]:
    return tuple(ValueSpec.from_json(item) for item in data)
