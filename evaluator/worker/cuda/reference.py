"""The reference worker on a GPU: owns the inputs, knows the answers, compares, and is timed.

The only trusted process that has a context on the device. What it computes with lies in memory
that no other process can reach: a candidate is given copies, and after it was called its copies
are compared with what they were made from. Of candidates' outputs, figures leave this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.values import DEVICE_ALIGNMENT_BYTES
from evaluator.wire import encode_value, layout
from evaluator.worker.cuda.comparison import Deviation, finite_mean, measure, ties_of
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.legs import Leg
from evaluator.worker.cuda.rooms import Room, unchanged
from evaluator.worker.cuda.shipping import Handles, attached, describe_outputs
from evaluator.worker.cuda.timed_sets import TimedSets, dense
from evaluator.worker.failures import Failure, describe
from evaluator.worker.opened import PROBLEM_FILE, OpenedProblem, open_problem
from evaluator.worker.serve import Handler
from evaluator.worker.state import publish_state
from evaluator.worker.tensors import Memory
from evaluator.worker.variants import vary

__all__ = ["CudaReferenceWorker"]


@dataclass(slots=True, kw_only=True)
class _CheckSet:
    """One input set with what it should give.

    Attributes:
        inputs: Its values.
        exact: The outputs in float64; integers as they are.
        own: The outputs in the problem's own precision.
        known: How far `own` is from `exact`.
    """

    inputs: list[object]
    exact: list[torch.Tensor] = field(default_factory=list)
    own: list[torch.Tensor] = field(default_factory=list)
    known: list[Deviation] = field(default_factory=list)


class CudaReferenceWorker:
    """Serves the ops of a reference worker on a GPU.

    Args:
        memory: The shared memory "state".
        driver: The device.
    """

    def __init__(self, memory: dict[str, Memory], driver: Driver) -> None:
        self._memory = memory
        self._driver = driver
        self._leg = Leg(driver)
        self._opened: OpenedProblem | None = None
        self._pointers: dict[int, tuple[int, int]] = {}
        self._sets: dict[int, _CheckSet] = {}
        self._timed: TimedSets | None = None
        self._rooms: dict[int, Room] = {}
        self._handles: Handles = {}
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "weights": self._weights,
            "draw": self._draw,
            "expect": self._expect,
            "nulls": self._nulls,
            "room": self._room,
            "clear": self._clear,
            "show": self._show,
            "shown": self._shown,
            "compare": self._compare,
            "stock": self._stock,
            "mix": self._mix,
            "mixed": self._mixed,
            "leg": self._run_leg,
            "compare_timed": self._compare_timed,
            "trim": self._trim,
            "rest": self._rest,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        building = request.get("op") == "open"
        status = Status.BUILD_ERROR if building else Status.RUNTIME_ERROR
        return describe(error, file=PROBLEM_FILE, status=status, reason="problem_raised")

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        self._driver.start()
        opened, reply = open_problem(request, self._driver.device)
        offsets, _ = layout(opened.inputs, DEVICE_ALIGNMENT_BYTES)
        opened.inputs = tuple(
            replace(spec, offset=at) for spec, at in zip(opened.inputs, offsets, strict=True)
        )
        self._opened = opened
        self._timed = TimedSets(self._driver, opened)
        self._pointers = {
            output: (number, dimension)
            for output, number, dimension in request.get("pointers") or ()
        }
        inputs = [spec.to_json() for spec in opened.inputs]
        numbers = _numbers(opened.sample(request["seed"]))
        self._driver.trim()
        return {**reply, "inputs": inputs, "numbers": numbers}

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        opened.set_weights(request["seed"])
        publish_state(opened.model, self._memory["state"])
        return {}

    def _draw(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        # The set that was there before makes room first.
        self._sets.pop(request["number"], None)
        values = opened.sample(request["seed"])
        generator = torch.Generator(opened.device).manual_seed(request["seed"])
        varied = [
            vary(value, domain, request["variant"], generator)
            for value, domain in zip(values, opened.domains, strict=True)
        ]
        inputs = [dense(value) for value, _ in varied]
        self._sets[request["number"]] = _CheckSet(inputs=inputs)
        return {"applied": any(applied for _, applied in varied)}

    def _expect(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute what a set should give, before any candidate has seen it."""
        opened = self._problem()
        one = self._sets[request["number"]]
        one.own = _tensors(opened.forward(one.inputs))
        widened = opened.in_float64(one.inputs)
        exact = None if widened is None else _tensors(widened)
        # Integers are as they are; a model that cannot run in float64 is its own measure.
        one.exact = [
            (own if not own.is_floating_point() else wide.double()).contiguous()
            for own, wide in zip(one.own, exact or one.own, strict=True)
        ]
        one.known = [measure(own, wide, own) for own, wide in zip(one.own, one.exact, strict=True)]
        del exact, widened
        self._driver.trim()
        return {
            "float64": not opened.exact_fails,
            "deviations": [known.to_json() for known in one.known],
            "means": [encode_value(finite_mean(exact)) for exact in one.exact],
        }

    def _nulls(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure what would come close on a set without computing anything."""
        one = self._sets[request["number"]]
        found = []
        for output, (constants, enough) in enumerate(
            zip(request["constants"], request["enough"], strict=True)
        ):
            own = one.own[output]
            null: dict[str, object] = {}
            for name, value in (("zeros", 0.0), *((f"constant{n}", c) for n, c in constants)):
                got = torch.full((), value, device=own.device).to(own.dtype)
                null[name] = self._deviation(one, output, got, enough).to_json()
            for number, value in enumerate(one.inputs):
                if isinstance(value, torch.Tensor) and _alike(value, own):
                    deviation = self._deviation(one, output, value, enough)
                    null[f"input{number}"] = deviation.to_json()
            found.append(null)
        return {"found": found}

    def _room(self, request: dict[str, Any]) -> dict[str, Any]:
        """Allocate memory for some input sets that a candidate is to be given."""
        room = Room(self._driver, self._problem().inputs, request["sets"])
        self._rooms[request["room"]] = room
        handle, offset = room.export()
        return {"handle": handle, "offset": offset}

    def _clear(self, request: dict[str, Any]) -> dict[str, Any]:
        for number in request["rooms"]:
            room = self._rooms.pop(number, None)
            if room is not None:
                room.release()
        return {}

    def _show(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copy a check set into the first place of a room."""
        inputs = self._sets[request["number"]].inputs
        self._rooms[request["room"]].write(0, inputs)
        self._driver.synchronize()
        return {"numbers": _numbers(inputs)}

    def _shown(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tell whether the first place of a room is what was copied there."""
        inputs = self._sets[request["number"]].inputs
        return {"unchanged": unchanged(self._rooms[request["room"]].pairs(0, inputs))}

    def _compare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a candidate's outputs on a check set."""
        one = self._sets[request["number"]]
        try:
            with attached(self._driver, request["outputs"]) as outputs:
                deviations = [
                    self._deviation(one, output, got).to_json()
                    for output, got in enumerate(outputs)
                ]
        except Failure as failure:
            return {"deviations": None, "log": failure.log}
        return {"deviations": deviations}

    def _stock(self, request: dict[str, Any]) -> dict[str, Any]:
        self._timed_sets().stock(request["seed"], request["sets"])
        return {}

    def _mix(self, request: dict[str, Any]) -> dict[str, Any]:
        """Fill sets for a leg with contents never seen before, and a candidate's copies of them."""
        timed = self._timed_sets()
        if not timed.mixed:
            # Nothing else has room where one set takes most of it.
            self._leg.clear()
            self._sets.clear()
        sets = timed.fill(request["calls"], request["seed"])
        if request.get("room") is not None:
            for place, values in enumerate(sets):
                self._rooms[request["room"]].write(place, values)
        self._driver.synchronize()
        return {"numbers": [_numbers(values) for values in sets]}

    def _mixed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tell whether a candidate's copies of a leg's sets are still what they were."""
        room = self._rooms[request["room"]]
        sets = self._timed_sets().first(request["calls"])
        pairs = [pair for place, values in enumerate(sets) for pair in room.pairs(place, values)]
        return {"unchanged": unchanged(pairs)}

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        opened.keeper.put_back()
        sets = self._timed_sets().first(request["calls"])
        times_ms = self._leg.run(opened.model, sets)
        # A candidate describes its outputs before it replies: its wall holds that too.
        described = [
            describe_outputs(self._driver, one, self._handles) for one in self._leg.outputs
        ]
        return {"times_ms": times_ms, "calls": described}

    def _compare_timed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a candidate's outputs of a timed call against the reference's."""
        owns = _tensors(self._leg.output(request["call"]))
        inputs = self._timed_sets().first(request["call"] + 1)[-1]
        try:
            with attached(self._driver, request["outputs"]) as outputs:
                deviations = [
                    measure(got, own, own, tied=self._ties(own, output, inputs)).to_json()
                    for output, (got, own) in enumerate(zip(outputs, owns, strict=True))
                ]
        except Failure as failure:
            return {"deviations": None, "log": failure.log}
        return {"deviations": deviations}

    def _trim(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give cached memory back: outputs of legs then get memory as a candidate's get it."""
        del request
        self._leg.clear()
        self._driver.trim()
        return {}

    def _rest(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give back everything but the model."""
        del request
        self._leg.clear()
        self._sets.clear()
        self._timed_sets().release()
        self._driver.trim()
        return {}

    def _deviation(
        self, one: _CheckSet, output: int, got: torch.Tensor, enough: float = math.inf
    ) -> Deviation:
        exact, own = one.exact[output], one.own[output]
        tied = self._ties(exact, output, one.inputs)
        return measure(got, exact, own, known=one.known[output], tied=tied, enough=enough)

    def _ties(self, exact: torch.Tensor, output: int, inputs: Sequence[object]) -> Any:  # noqa: ANN401
        if output not in self._pointers:
            return None
        number, dimension = self._pointers[output]
        source = inputs[number]
        assert isinstance(source, torch.Tensor)
        return ties_of(exact, source, dimension)

    def _timed_sets(self) -> TimedSets:
        if self._timed is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
        return self._timed

    def _problem(self) -> OpenedProblem:
        if self._opened is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
        return self._opened


def _tensors(outputs: object) -> list[torch.Tensor]:
    items = outputs if isinstance(outputs, tuple | list) else [outputs]
    return [item.contiguous() for item in items if isinstance(item, torch.Tensor)]


def _alike(value: torch.Tensor, own: torch.Tensor) -> bool:
    return value.shape == own.shape and value.dtype == own.dtype


def _numbers(values: Sequence[object]) -> list[object]:
    """The plain numbers of a set, encoded; None in place of tensors."""
    return [None if isinstance(value, torch.Tensor) else encode_value(value) for value in values]
