"""The open candidates of a worker process, whatever they run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.wire import ValueSpec, decode_value
from evaluator.worker.failures import Failure, describe
from evaluator.worker.program import load_program
from evaluator.worker.state import BufferKeeper, load_state, take_precision
from evaluator.worker.tensors import Memory

__all__ = ["OpenProgram", "Programs", "construct", "explain", "file_of"]


@dataclass(slots=True, kw_only=True)
class OpenProgram:
    """One open candidate.

    Attributes:
        request: What it was opened with.
        model: Its `ModelNew`, or what that constructed.
        keeper: Puts its buffers back; None where the model has none to keep.
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

    def call_again(self, arguments: Sequence[object]) -> object:
        """Call the model after its buffers are put back, as if it had not been called before."""
        if self.keeper is not None:
            self.keeper.put_back()
        return self.model(*arguments)


class Programs:
    """Open candidates by the numbers that the referee gave them."""

    def __init__(self) -> None:
        self._open: dict[int, OpenProgram] = {}

    def add(self, request: dict[str, Any], model: Any) -> OpenProgram:  # noqa: ANN401
        """Keep what a candidate constructed."""
        program = OpenProgram(
            request=request,
            model=model,
            keeper=BufferKeeper(model) if isinstance(model, nn.Module) else None,
            inputs=_specs(request["inputs"]),
            state=_specs(request["state"]),
            output_bytes=[spec.num_bytes for spec in _specs(request.get("outputs") or ())],
        )
        self._open[request["index"]] = program
        return program

    def of(self, request: dict[str, Any]) -> OpenProgram:
        """Return the candidate that a request is about.

        Raises:
            Failure: It is not open.
        """
        program = self._open.get(request["index"])
        if program is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "the candidate is not open")
        return program

    def load_weights(self, request: dict[str, Any], state: Memory) -> dict[str, Any]:
        """Load the published state; says False where the model's parameters do not match."""
        program = self.of(request)
        if not isinstance(program.model, nn.Module):
            return {"loaded": False}
        loaded = load_state(program.model, state, program.state)
        if loaded and program.keeper is not None:
            program.keeper.keep()
        return {"loaded": loaded}


def construct(request: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever the candidate constructs
    """Load a candidate's module and construct its model, under the reference's seed.

    Parameters and buffers that it shares with the reference, buffers that are not persistent among
    them, take the precision of those.
    """
    index = request["index"]
    torch.manual_seed(request["seed"])
    name = f"evokernel_candidate_{index}"
    program = load_program(request["source"], name, file_of(index), ("ModelNew",))
    init = decode_value(request["init"])
    torch.manual_seed(request["seed"])
    model = program["ModelNew"](*init)
    if isinstance(model, nn.Module):
        take_precision(model, request["conversions"])
    return model


def explain(error: Exception, request: dict[str, Any]) -> Failure:
    """Turn what the candidate's code raised into a failure."""
    file = file_of(request.get("index", 0))
    if request.get("op") == "open":
        status, reason = Status.BUILD_ERROR, "build_raised"
    else:
        status, reason = Status.RUNTIME_ERROR, "forward_raised"
    return describe(error, file=file, status=status, reason=reason)


def file_of(index: int) -> str:
    """Return the file name that tracebacks give a candidate's module."""
    return f"candidate_{index}.py"


def _specs(data: Sequence[object]) -> tuple[ValueSpec, ...]:
    return tuple(ValueSpec.from_json(item) for item in data)
