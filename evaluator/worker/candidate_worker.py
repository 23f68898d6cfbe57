"""The candidate worker: builds a candidate, and calls it as it is told.

It shares a process with the candidate, so nothing it says is believed: what counts are the bytes
it leaves in the outputs' memory, and the referee's clock.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import nullcontext
from typing import Any

from torch import nn

from evaluator.worker.census import take_census
from evaluator.worker.failures import Failure
from evaluator.worker.legs import Leg, write_outputs
from evaluator.worker.poison import poisoned
from evaluator.worker.programs import OpenProgram, Programs, construct, explain
from evaluator.worker.serve import Handler
from evaluator.worker.spread import measure_spread
from evaluator.worker.state import load_state
from evaluator.worker.tensors import Memory, read

__all__ = ["CandidateWorker"]


class CandidateWorker:
    """Serves the ops of a candidate worker.

    Args:
        memory: The shared memories "inputs", "state" and "outputs".
    """

    def __init__(self, memory: dict[str, Memory]) -> None:
        self._memory = memory
        self._leg = Leg()
        self._programs = Programs()
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "weights": self._weights,
            "call": self._call,
            "census": self._census,
            "leg": self._run_leg,
            "hold": self._hold,
            "ship": self._ship,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the candidate's code raised into a failure."""
        return explain(error, request)

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._programs.add(request, construct(request))
        return {}

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._programs.load_weights(request, self._memory["state"])

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._programs.of(request)
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
        program = self._programs.of(request)
        arguments = [self._inputs(program, request["base"]) for _ in range(request["calls"])]
        folders = [os.environ["EVOKERNEL_BUILD_DIR"], os.environ["TMPDIR"]]

        def fresh_model() -> Any:  # noqa: ANN401 - whatever the candidate constructs
            model = construct(program.request)
            if isinstance(model, nn.Module):
                load_state(model, self._memory["state"], program.state)
            return model

        facts = take_census(fresh_model, arguments, folders)
        return {**facts, "spread": measure_spread(lambda: program.call_again(arguments[0]))}

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        if not request["bases"]:
            return {}
        program = self._programs.of(request)
        if program.keeper is not None:
            program.keeper.put_back()
        memory = self._memory["inputs"]
        return self._leg.run(program.model, memory, program.inputs, request["bases"])

    def _hold(self, request: dict[str, Any]) -> dict[str, Any]:
        self._leg.hold(request["call"])
        return {}

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        output = self._leg.output(request["call"])
        return write_outputs(self._memory["outputs"], request["at"], output)

    def _inputs(self, program: OpenProgram, base: int) -> list[object]:
        buffer: ctypes.Array[ctypes.c_char] = self._memory["inputs"].buffer()
        return [read(buffer, base, spec) for spec in program.inputs]
