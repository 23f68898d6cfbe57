"""The candidate worker on a GPU: builds a candidate, and calls it as it is told.

It shares a process with the candidate, so nothing it says is believed: outputs are read by the
reference's process where they lie, and its times must agree with the referee's clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from archives.evaluation import Mismatch, Status
from evaluator.values import SIGNAL_BYTES
from evaluator.wire import decode_value
from evaluator.worker.cuda.census import Census
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.legs import Leg
from evaluator.worker.cuda.rehearsal import compile_errors, rehearsing
from evaluator.worker.cuda.rooms import set_bytes
from evaluator.worker.cuda.shipping import Extent, Handles, describe_outputs
from evaluator.worker.cuda.signals import DeviceSignals
from evaluator.worker.failures import Failure, describe
from evaluator.worker.legs import tensors_of
from evaluator.worker.programs import OpenProgram, Programs, construct, explain, file_of
from evaluator.worker.serve import Handler
from evaluator.worker.spread import measure_spread
from evaluator.worker.state import touch
from evaluator.worker.tensors import Memory

__all__ = ["CudaCandidateWorker"]

_POISON_BYTE = 0xFF
"""Every floating-point format reads as NaN, every integer as -1."""


class CudaCandidateWorker:
    """Serves the ops of a candidate worker on a GPU.

    Args:
        memory: The shared memories "state" and "signals".
        driver: The device.
    """

    def __init__(self, memory: dict[str, Memory], driver: Driver) -> None:
        self._memory = memory
        self._driver = driver
        self._leg = Leg(driver)
        self._signals: DeviceSignals | None = None
        self._programs = Programs()
        self._rooms: dict[str, Extent] = {}
        self._kept: object = None
        self._handles: Handles = {}
        self._census = Census()
        self._watched = ""
        self._spread: float | Mismatch | None = None
        self.handlers: dict[str, Handler] = {
            "attach": self._attach,
            "open": self._open,
            "weights": self._weights,
            "call": self._call,
            "forget": self._forget,
            "look_up": self._look_up,
            "leg": self._run_leg,
            "signals": self._take_signals,
            "queue": self._queue_leg,
            "ship": self._ship,
            "prepare_census": self._prepare_census,
            "watch": self._watch,
            "census": self._tell_census,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the candidate's code raised into a failure."""
        return explain(error, request)

    def _attach(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create the context, and map a room of the reference's process."""
        self._driver.start()
        address, _ = self._driver.attach(request["handle"])
        self._rooms[request["room"]] = address + request["offset"], request["bytes"]
        return {}

    def _take_signals(self, request: dict[str, Any]) -> dict[str, Any]:
        """Map this process's own page of the signals; the file is out of reach afterwards."""
        page = self._memory["signals"].keep_part(request["page"] * SIGNAL_BYTES, SIGNAL_BYTES)
        self._signals = DeviceSignals(self._driver, page)
        return {}

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        model = construct(request)
        if isinstance(model, nn.Module):
            model = model.to(self._driver.device)
        program = self._programs.add(request, model)
        self._rehearse(program, request["numbers"])
        return {}

    def _rehearse(self, program: OpenProgram, numbers: Sequence[object]) -> None:
        """Compile what the first call would compile; it fails here only where that does."""
        inputs = self._inputs(program, "check", 0, numbers)
        unbuildable = compile_errors()
        try:
            with rehearsing():
                program.model(*inputs)
        except unbuildable as error:
            raise describe(
                error,
                file=file_of(program.request["index"]),
                status=Status.BUILD_ERROR,
                reason="compile_failed",
            ) from error
        except Exception:  # noqa: BLE001 - a rehearsal may fail for its garbage: the call will tell
            return
        finally:
            if program.keeper is not None:
                program.keeper.put_back()
            if isinstance(program.model, nn.Module):
                # What was made of weights is garbage: who keeps that makes it anew.
                touch(program.model)
            # Outputs of a rehearsal are as large as any, and its turn may be far.
            self._driver.trim()

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._programs.load_weights(request, self._memory["state"])

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._programs.of(request)
        self._leg.clear()
        self._kept = None
        arguments = self._inputs(program, "check", 0, request["numbers"])
        self._poison(program.output_bytes)
        outputs = program.model(*arguments)
        self._driver.synchronize()
        if program.keeper is not None:
            program.keeper.put_back()
        self._kept = outputs
        described = self._describe(outputs)
        program.output_bytes = [output["bytes"] for output in described["outputs"]]
        return described

    def _forget(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give back what the last calls returned, and what torch keeps for the next ones."""
        del request
        self._leg.clear()
        self._kept = None
        self._driver.trim()
        return {}

    def _poison(self, sizes: Sequence[int]) -> None:
        """Fill the blocks that the next outputs will most likely be given."""
        device = self._driver.device
        blocks = [torch.empty(size, dtype=torch.uint8, device=device) for size in sizes if size]
        for block in blocks:
            block.fill_(_POISON_BYTE)

    def _look_up(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the device look up where the memory of a leg is."""
        self._leg.look_up(self._arguments_of_leg(request)[1])
        return {}

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        program, arguments = self._arguments_of_leg(request)
        times_ms = self._leg.run(program.model, arguments)
        return {"times_ms": times_ms, "calls": [self._describe(one) for one in self._leg.outputs]}

    def _queue_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        """Queue a sealed leg; the reply is there before the device has begun."""
        if self._signals is None:
            raise Failure(Status.RUNTIME_ERROR, "no_signals", "the process has no signals")
        if not request["numbers"]:
            # With nothing but the reference loaded: what a leg takes beside its calls. One short
            # kernel lets the device turn to this process, as calls do.
            word = torch.zeros(1, device=self._driver.device)
            self._leg.queue(word.zero_, ((),), self._signals, request["ticket"])
            return {"calls": []}
        program, arguments = self._arguments_of_leg(request)
        self._leg.look_up(arguments)
        self._leg.queue(program.model, arguments, self._signals, request["ticket"])
        return {"calls": [self._describe(one) for one in self._leg.outputs]}

    def _arguments_of_leg(self, request: dict[str, Any]) -> tuple[OpenProgram, list[list[object]]]:
        program = self._programs.of(request)
        self._kept = None
        if program.keeper is not None:
            program.keeper.put_back()
        return program, [
            self._inputs(program, request["room"], place, numbers)
            for place, numbers in enumerate(request["numbers"])
        ]

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copy the outputs of a call of the last leg, row after row."""
        output = self._leg.output(request["call"])
        tensors, several = tensors_of(output, self._driver.device.type)
        copies = [
            torch.clone(tensor.detach(), memory_format=torch.contiguous_format)
            for tensor in tensors
        ]
        self._kept = copies
        self._driver.synchronize()
        return self._describe(copies if several else copies[0])

    def _describe(self, returned: object) -> dict[str, Any]:
        return describe_outputs(self._driver, returned, self._handles, self._rooms)

    def _prepare_census(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        self._census.prepare()
        return {}

    def _watch(self, request: dict[str, Any]) -> dict[str, Any]:
        program = self._programs.of(request)
        arguments = self._inputs(program, "check", 0, request["numbers"])
        # Before the census: the profiler stays attached until what it saw is told.
        self._spread = measure_spread(lambda: program.call_again(arguments))
        self._census.watch(program.model, arguments, request["calls"])
        self._watched = str(program.request["source"])
        return {}

    def _tell_census(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        folders = [os.environ["EVOKERNEL_BUILD_DIR"], os.environ["TMPDIR"]]
        return {**self._census.facts(folders, self._watched), "spread": self._spread}

    def _inputs(
        self, program: OpenProgram, room: str, place: int, numbers: Sequence[object]
    ) -> list[object]:
        """Values of one input set: fresh tensors over a place of a room, and plain numbers."""
        base = self._rooms[room][0] + place * set_bytes(program.inputs)
        return [
            decode_value(number)
            if spec.dtype.startswith("python:")
            else self._driver.tensor(base + spec.offset, spec)
            for spec, number in zip(program.inputs, numbers, strict=True)
        ]
