"""The reference worker: draws inputs, and computes what they should give."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.values import Permitted
from evaluator.worker.failures import Failure, describe
from evaluator.worker.legs import Leg, write_outputs
from evaluator.worker.opened import (
    PROBLEM_FILE,
    OpenedProblem,
    map_tensors,
    open_problem,
    to_float64,
)
from evaluator.worker.serve import Handler
from evaluator.worker.state import publish_state
from evaluator.worker.stock import Reservoir
from evaluator.worker.tensors import Memory, read, write
from evaluator.worker.timed_variants import mixed_contents, permitted_contents, timed_runs
from evaluator.worker.variants import vary_set, varying

__all__ = ["ReferenceWorker"]


class ReferenceWorker:
    """Serves the ops of the reference worker.

    Args:
        memory: The shared memories "inputs", "state" and "expected".
    """

    def __init__(self, memory: dict[str, Memory]) -> None:
        self._memory = memory
        self._leg = Leg()
        self._opened: OpenedProblem | None = None
        self._reservoirs: list[Reservoir] = []
        self._permitted = Permitted()
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "draw": self._draw,
            "stock": self._stock,
            "mix": self._mix,
            "weights": self._weights,
            "expect": self._expect,
            "call": self._call,
            "leg": self._run_leg,
            "ship": self._ship,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        building = request.get("op") == "open"
        status = Status.BUILD_ERROR if building else Status.RUNTIME_ERROR
        return describe(error, file=PROBLEM_FILE, status=status, reason="problem_raised")

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._opened, reply = open_problem(request)
        return reply

    def _draw(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        values = opened.sample(request["seed"])
        generator = varying(request["seed"], opened.device)
        varied, applied = vary_set(
            values, opened.domains, request["variant"], generator, runs=request["runs"]
        )
        buffer = self._memory["inputs"].buffer()
        for spec, value in zip(opened.inputs, varied, strict=True):
            write(buffer, request["base"], spec, value)
        return {"applied": applied}

    def _stock(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        draws = [opened.sample(request["seed"] + number) for number in range(request["sets"])]
        self._reservoirs = [
            Reservoir([draw[number] for draw in draws], domain)
            for number, domain in enumerate(opened.domains)
        ]
        contents = mixed_contents(opened, self._reservoirs, request["seed"])
        self._permitted = permitted_contents(opened, contents)
        return self._permitted.to_json()

    def _mix(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        generator = torch.Generator().manual_seed(request["seed"])
        buffer = self._memory["inputs"].buffer()
        runs = timed_runs(self._permitted)
        for base, variant in zip(request["bases"], request["variants"], strict=True):
            for spec, reservoir in zip(opened.inputs, self._reservoirs, strict=True):
                target = read(buffer, base, spec)
                value = reservoir.mix(target, generator, variant, runs=runs)
                if not isinstance(value, torch.Tensor):
                    write(buffer, base, spec, value)
        return {}

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        opened.set_weights(request["seed"])
        publish_state(opened.model, self._memory["state"])
        return {}

    def _expect(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        values = self._inputs(request["base"])
        exact = opened.in_float64(values)
        outputs = exact if exact is not None else opened.forward(values)
        widened = map_tensors(outputs, to_float64)
        written = write_outputs(self._memory["expected"], request["at"], widened)
        return {**written, "float64": exact is not None}

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        outputs = self._problem().forward(self._inputs(request["base"]))
        return write_outputs(self._memory["expected"], request["at"], outputs)

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        if not request["bases"]:
            return {}
        opened = self._problem()
        opened.keeper.put_back()
        memory = self._memory["inputs"]
        return self._leg.run(opened.model, memory, opened.inputs, request["bases"])

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        output = self._leg.output(request["call"])
        return write_outputs(self._memory["expected"], request["at"], output)

    def _problem(self) -> OpenedProblem:
        if self._opened is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
        return self._opened

    def _inputs(self, base: int) -> list[object]:
        buffer: ctypes.Array[ctypes.c_char] = self._memory["inputs"].buffer()
        return [read(buffer, base, spec) for spec in self._problem().inputs]
