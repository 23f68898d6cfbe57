"""The reference worker on a GPU: owns the inputs, knows the answers, compares, and is timed.

The only trusted process that has a context on the device. What it computes with lies in memory
that no other process can reach: a candidate is given copies, and after it was called its copies
are compared with what they were made from. Of candidates' outputs, figures leave this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch

from archives.evaluation import Status
from evaluator.values import DEVICE_ALIGNMENT_BYTES
from evaluator.wire import CROWDED, encode_value, layout
from evaluator.worker.cuda.check_sets import CheckSets, tensors_in
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.legs import Leg
from evaluator.worker.cuda.patience import patient
from evaluator.worker.cuda.rooms import Rooms, unchanged
from evaluator.worker.cuda.sealed import SealedLegs, piece_of
from evaluator.worker.cuda.shipping import Handles, Mappings, attached, describe_outputs
from evaluator.worker.cuda.timed_sets import TimedSets
from evaluator.worker.failures import Failure, describe
from evaluator.worker.opened import PROBLEM_FILE, OpenedProblem, open_problem
from evaluator.worker.serve import Handler
from evaluator.worker.state import publish_state
from evaluator.worker.tensors import Memory

__all__ = ["CudaReferenceWorker"]

T = TypeVar("T")


class CudaReferenceWorker:
    """Serves the ops of a reference worker on a GPU.

    Args:
        memory: The shared memories "state" and "signals".
        driver: The device.
    """

    def __init__(self, memory: dict[str, Memory], driver: Driver) -> None:
        self._memory = memory
        self._driver = driver
        self._leg = Leg(driver)
        self._sealed = SealedLegs(driver, memory["signals"], self._leg)
        self._opened: OpenedProblem | None = None
        self._checks: CheckSets | None = None
        self._timed: TimedSets | None = None
        self._rooms = Rooms(driver)
        self._handles: Handles = {}
        self._mappings = Mappings(driver)
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "weights": self._weights,
            "draw": patient(driver, self._draw),
            "expect": patient(driver, self._expect),
            "nulls": patient(driver, self._nulls),
            "room": self._room,
            "clear": self._clear,
            "show": self._show,
            "shown": self._shown,
            "compare": patient(driver, self._compare),
            "stock": patient(driver, self._stock),
            "mix": patient(driver, self._mix),
            "mixed": self._mixed,
            "look_up": self._look_up,
            "leg": self._run_leg,
            "idle_leg": self._idle_leg,
            "copy_rate": self._copy_rate,
            "sealed_leg": self._sealed_leg,
            "release": self._release,
            "compare_timed": self._compare_timed,
            "trim": self._trim,
            "rest": self._rest,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        building = request.get("op") == "open"
        if building and isinstance(error, torch.OutOfMemoryError) and self._driver.crowded:
            return Failure(Status.OUT_OF_MEMORY, CROWDED, "others have the memory at the moment")
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
        pointers = {
            output: (number, dimension)
            for output, number, dimension in request.get("pointers") or ()
        }
        self._checks = CheckSets(self._driver, opened, pointers)
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
        if not self._timed_sets().mixed:
            # One set has room at a time, be it timed or checked.
            self._rest({})
        applied = self._check_sets().draw(
            request["number"], request["seed"], request["variant"], runs=request["runs"]
        )
        return {"applied": applied}

    def _expect(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute what a set should give, before any candidate has seen it."""
        return self._check_sets().expect(request["number"])

    def _nulls(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure what would come close on a set without computing anything."""
        number, constants = request["number"], request["constants"]
        return {"found": self._check_sets().nulls(number, constants, request["enough"])}

    def _room(self, request: dict[str, Any]) -> dict[str, Any]:
        """Allocate memory for some input sets that a candidate is to be given."""
        room = self._rooms.open(request["room"], self._problem().inputs, request["sets"])
        handle, offset = room.export()
        return {"handle": handle, "offset": offset, "bytes": room.extent[1]}

    def _clear(self, request: dict[str, Any]) -> dict[str, Any]:
        self._mappings.let_go()
        self._rooms.close(request["rooms"])
        return {}

    def _show(self, request: dict[str, Any]) -> dict[str, Any]:
        """Copy a check set into the first place of a room."""
        inputs = self._check_sets().inputs(request["number"])
        self._rooms[request["room"]].write(0, inputs)
        self._driver.synchronize()
        return {"numbers": _numbers(inputs)}

    def _shown(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tell whether the first place of a room is what was copied there."""
        inputs = self._check_sets().inputs(request["number"])
        return {"unchanged": unchanged(self._rooms[request["room"]].pairs(0, inputs))}

    def _compare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a candidate's outputs on a check set."""
        # Never those of two candidates at once: the driver may take one for the other.
        self._mappings.let_go()
        checks, number = self._check_sets(), request["number"]
        return _measured(self._attached(request), partial(checks.deviations, number))

    def _attached(
        self, request: dict[str, Any], mappings: Mappings | None = None
    ) -> AbstractContextManager[list[torch.Tensor]]:
        return attached(self._driver, request["outputs"], self._rooms.extents, mappings)

    def _stock(self, request: dict[str, Any]) -> dict[str, Any]:
        return self._timed_sets().stock(request["seed"], request["sets"]).to_json()

    def _mix(self, request: dict[str, Any]) -> dict[str, Any]:
        """Fill sets for a leg with contents never seen before, and a candidate's copies of them."""
        timed = self._timed_sets()
        if not timed.mixed:
            # Nothing else has room where one set takes most of it.
            self._leg.clear()
            self._check_sets().clear()
        sets = timed.fill(request["variants"], request["seed"])
        if request.get("room") is not None:
            timed.copy_to(self._rooms[request["room"]], len(sets))
        self._driver.synchronize()
        return {"numbers": [_numbers(values) for values in sets]}

    def _mixed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Tell whether a candidate's copies of a leg's sets are still what they were."""
        room = self._rooms[request["room"]]
        return {"unchanged": self._timed_sets().unchanged_in(room, request["calls"])}

    def _look_up(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the device look up where the memory of a leg is."""
        self._leg.look_up(self._timed_sets().first(request["calls"]))
        return {}

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        opened.keeper.put_back()
        sets = self._timed_sets().first(request["calls"])
        times_ms = self._leg.run(opened.model, sets)
        # A candidate describes its outputs before it replies: its wall holds that too.
        described = [
            describe_outputs(self._driver, one, self._handles, {}) for one in self._leg.outputs
        ]
        return {"times_ms": times_ms, "calls": described}

    def _idle_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time a leg in which nothing is computed: what events say of that."""
        return {"times_ms": self._leg.run(lambda: None, [()] * request["calls"])}

    def _copy_rate(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        return {"ms_per_byte": self._sealed.copy_ms_per_byte()}

    def _sealed_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time a sealed leg of the reference on the timed sets; without calls, what is beside."""
        opened = self._problem()
        opened.keeper.put_back()
        calls = request["calls"]
        sets = self._timed_sets().first(calls) if calls else ()
        limits = (request["patience_s"], request["limit_s"])
        wall_ms = self._sealed.own(opened.model, sets, request["ticket"], *limits)
        return {"wall_ms": wall_ms}

    def _release(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give a candidate's queued leg its inputs, let it go, and time it."""
        call, at, calls = request["call"], request["at"], request["calls"]
        pieces: list[torch.Tensor] = []
        scratch = torch.empty(1 << 20, dtype=torch.uint8, device=self._driver.device)

        def write_inputs() -> None:
            if calls:
                self._timed_sets().copy_to(self._rooms[request["room"]], calls)

        try:
            with self._attached(request, self._mappings) as outputs:
                found = self._sealed.release(
                    request["page"],
                    request["ticket"],
                    request["limit_s"],
                    write_inputs,
                    lambda: pieces.extend(
                        piece_of(one, at).clone() for one in (outputs or [scratch])
                    ),
                )
        except Failure as failure:
            return {"deviations": None, "log": failure.log}
        times = {"copy_ms": found.copy_ms, "wall_ms": found.wall_ms, "late_ms": found.late_ms}
        if not request["outputs"] or found.wall_ms is None:
            return {**times, "deviations": []}
        return {**times, "deviations": self._deviations_of_timed(call, pieces, at)}

    def _compare_timed(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure a candidate's outputs of a timed call against the reference's."""
        measure = partial(self._deviations_of_timed, request["call"])
        return _measured(self._attached(request, self._mappings), measure)

    def _deviations_of_timed(
        self, call: int, outputs: Sequence[torch.Tensor], at: float | None = None
    ) -> list[object]:
        owns = tensors_in(self._leg.output(call))
        inputs = self._timed_sets().first(call + 1)[-1]
        return self._check_sets().deviations_from(owns, outputs, inputs, at)

    def _trim(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give cached memory back: outputs of legs then get memory as a candidate's get it."""
        del request
        self._mappings.let_go()
        self._leg.clear()
        self._driver.trim()
        free, total = self._driver.memory
        return {"free": free, "total": total}

    def _rest(self, request: dict[str, Any]) -> dict[str, Any]:
        """Give back everything but the model."""
        self._check_sets().clear()
        self._timed_sets().release()
        return self._trim(request)

    def _check_sets(self) -> CheckSets:
        return _opened(self._checks)

    def _timed_sets(self) -> TimedSets:
        return _opened(self._timed)

    def _problem(self) -> OpenedProblem:
        return _opened(self._opened)


def _measured(
    mapped: AbstractContextManager[list[torch.Tensor]],
    measure: Callable[[list[torch.Tensor]], list[object]],
) -> dict[str, Any]:
    """Measure a candidate's outputs where they lie, if they can be read there."""
    try:
        with mapped as outputs:
            return {"deviations": measure(outputs)}
    except Failure as failure:
        return {"deviations": None, "log": failure.log}


def _opened(what: T | None) -> T:
    """Return what there is as soon as a problem is open."""
    if what is None:
        raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
    return what


def _numbers(values: Sequence[object]) -> list[object]:
    """The plain numbers of a set, encoded; None in place of tensors."""
    return [None if isinstance(value, torch.Tensor) else encode_value(value) for value in values]
