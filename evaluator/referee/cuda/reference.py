"""Requests to the reference worker on a GPU: one at a time, whichever thread asks."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from archives.evaluation import Status
from evaluator.referee.correctness import Deviation
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.indices import Pointer
from evaluator.referee.reference import OpenedProblem, ReferenceWorker
from evaluator.referee.spawner import Worker
from evaluator.values import Permitted
from evaluator.wire import decode_value
from problems.problem import Problem

__all__ = ["SETTLING_S", "CudaReference", "Numbers", "Released", "Room"]

SETTLING_S = 0.001
"""Pause of the device before each leg: whoever came right after other work was 1 % slower."""

Numbers = Sequence[object]
"""The plain numbers among a set's inputs, encoded; None in place of tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Memory of the reference's process in which one candidate is given copies of inputs.

    Attributes:
        number: Its number in requests.
        handle: What a candidate's process opens it by.
        offset: Where in the allocation it begins, in bytes.
        num_bytes: Its size.
    """

    number: int
    handle: str
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A candidate's sealed leg, as the reference's process saw it.

    Attributes:
        copy_ms: Time in which its inputs were written.
        wall_ms: Time from letting it go until the device said that it was done; None: not in time.
        late_ms: Time from then until a piece of an output was copied.
        deviations: How far that piece was off; empty where none was asked for.
    """

    copy_ms: float
    wall_ms: float | None
    late_ms: float
    deviations: list[Deviation]


class CudaReference:
    """A reference worker on a GPU, which several threads may ask.

    Attributes:
        worker: Its process.
        numbers: Plain numbers of some input set, for rehearsals.
    """

    def __init__(self, requests: ReferenceWorker) -> None:
        self.worker: Worker = requests.worker
        self.numbers: Numbers = ()
        self._requests = requests
        self._lock = threading.Lock()
        self._room_numbers = itertools.count()

    def open(self, problem: Problem, seed: int, pointers: Mapping[int, Pointer]) -> OpenedProblem:
        """Load the problem's module, construct its model and move it to the device.

        Args:
            problem: The problem.
            seed: torch's seed for the construction; candidates construct under the same.
            pointers: Outputs that are indices into an input, by number.
        """
        reply = self._ask(
            "open",
            seed=seed,
            source=problem.source,
            precision=problem.precision,
            domains=[{"kind": d.kind.value, "upper": d.upper} for d in problem.domains],
            pointers=[[n, p.input_number, p.dimension] for n, p in pointers.items()],
        )
        self.numbers = reply["numbers"]
        return OpenedProblem(reply)

    def weights(self, seed: int | None) -> None:
        """Publish parameters and buffers: redrawn, or as constructed for None."""
        self._ask("weights", seed=seed)

    def draw(self, number: int, seed: int, variant: str, *, runs: bool) -> None:
        """Draw a check set, maybe with neighbours among its outliers."""
        self._ask("draw", number=number, seed=seed, variant=variant, runs=runs)

    def expect(self, number: int) -> tuple[list[Deviation], list[float]]:
        """Compute what a set should give: the reference's own errors, and the outputs' means."""
        reply = self._ask("expect", number=number)
        means = [float(decode_value(mean)) for mean in reply["means"]]
        return _deviations(reply["deviations"]), means

    def nulls(
        self, number: int, constants: Sequence[Sequence[float]], enough: Sequence[float]
    ) -> list[dict[str, Deviation]]:
        """Measure, for each output, what would come close without computing anything.

        Args:
            number: Of the set.
            constants: For each output, values that might do in place of all its elements.
            enough: For each output the rms error beyond which nothing passes.
        """
        numbered = [list(enumerate(values)) for values in constants]
        reply = self._ask("nulls", number=number, constants=numbered, enough=list(enough))
        return [
            {name: _deviation(data) for name, data in found.items()} for found in reply["found"]
        ]

    def room(self, sets: int) -> Room:
        """Allocate a room for some input sets.

        Raises:
            EvaluatorError: Others have the memory at the moment.
        """
        number = next(self._room_numbers)
        reply = self._ask("room", room=number, sets=sets)
        return Room(
            number=number,
            handle=str(reply["handle"]),
            offset=int(reply["offset"]),
            num_bytes=int(reply["bytes"]),
        )

    def clear(self, rooms: Sequence[Room]) -> None:
        """Free rooms whose candidate has ended."""
        if rooms and not self.worker.ended:
            self._ask("clear", rooms=[room.number for room in rooms])

    def show(self, room: Room, number: int) -> Numbers:
        """Copy a check set into a room; return its plain numbers."""
        numbers: Numbers = self._ask("show", room=room.number, number=number)["numbers"]
        return numbers

    def shown_unchanged(self, room: Room, number: int) -> bool:
        """Tell whether a room still holds the check set that was copied there."""
        return bool(self._ask("shown", room=room.number, number=number)["unchanged"])

    def compare(self, number: int, outputs: Sequence[Mapping[str, Any]]) -> list[Deviation]:
        """Measure a candidate's outputs on a check set where they lie."""
        return _readable(self._ask("compare", number=number, outputs=list(outputs)))

    def stock(self, seed: int, sets: int) -> Permitted:
        """Prepare what timed sets are mixed from; return what the problem's inputs may be.

        Args:
            seed: Of the randomness.
            sets: How many are drawn for it; 0: timed sets are drawn, not mixed.
        """
        return Permitted.of(self._ask("stock", seed=seed, sets=sets))

    def mix(self, variants: Sequence[str], seed: int, room: Room | None) -> list[Numbers]:
        """Fill timed sets, and copies of them in a room; return the plain numbers of each."""
        number = None if room is None else room.number
        reply = self._ask("mix", variants=list(variants), seed=seed, room=number)
        numbers: list[Numbers] = reply["numbers"]
        return numbers

    def mixed_unchanged(self, room: Room, calls: int) -> bool:
        """Tell whether a room still holds the timed sets that were copied there."""
        return bool(self._ask("mixed", room=room.number, calls=calls)["unchanged"])

    def leg(self, calls: int) -> tuple[list[float], float]:
        """Call the reference on timed sets, waking up from a halt as a candidate does.

        Returns:
            The ms that its events saw in each call, and the wall in ms.
        """
        with self._lock:
            self._requests.ask("look_up", calls=calls)
            self.worker.stop()
            time.sleep(SETTLING_S)
            start = perf_counter()
            reply = self._requests.ask("leg", calls=calls)
            wall_ms = 1000 * (perf_counter() - start)
        return [float(time_ms) for time_ms in reply["times_ms"]], wall_ms

    def idle_ms(self, calls: int) -> float:
        """Return what events around a call say in which nothing is computed: the median, in ms."""
        reply = self._ask("idle_leg", calls=calls)
        return median(float(time_ms) for time_ms in reply["times_ms"])

    def copy_ms_per_byte(self) -> float:
        """Return the time that copying a byte on the device takes while nothing else runs."""
        return float(self._ask("copy_rate")["ms_per_byte"])

    def sealed_leg(self, calls: int, patience_s: float, limit_s: float) -> float | None:
        """Run a sealed leg of the reference on the timed sets, whose outputs are kept.

        Args:
            calls: Its calls; 0: what a leg takes beside them.
            patience_s: How long queueing it may take.
            limit_s: How long it may take.

        Returns:
            Its ms; None where the reference cannot be queued, though it has run then too.
        """
        fields = {"calls": calls, "ticket": self.ticket(), "patience_s": patience_s}
        wall_ms = self._ask("sealed_leg", limit_s=limit_s, **fields)["wall_ms"]
        return None if wall_ms is None else float(wall_ms)

    def ticket(self) -> int:
        """Return a number that nobody can foresee."""
        return secrets.randbits(31) | 1

    def release(
        self,
        page: int,
        ticket: int,
        limit_s: float,
        *,
        room: Room | None = None,
        calls: int = 0,
        call: int = 0,
        at: float = 0.0,
        outputs: Sequence[Mapping[str, Any]] = (),
    ) -> Released:
        """Write the inputs of a candidate's queued leg, let it go, and time it.

        Args:
            page: Of its signals.
            ticket: What its leg waits for.
            limit_s: How long it may take.
            room: Where its inputs are to be.
            calls: Sets to write there, as they were mixed last.
            call: Which call's outputs are looked at.
            at: Which piece of them, 0 to 1.
            outputs: Where they are to be found; empty: none are looked at.
        """
        reply = self._ask(
            "release",
            page=page,
            ticket=ticket,
            limit_s=limit_s,
            room=None if room is None else room.number,
            calls=calls,
            call=call,
            at=at,
            outputs=list(outputs),
        )
        deviations = _readable(reply)
        wall_ms = reply["wall_ms"]
        return Released(
            copy_ms=float(reply["copy_ms"]),
            wall_ms=None if wall_ms is None else float(wall_ms),
            late_ms=float(reply["late_ms"]),
            deviations=deviations,
        )

    def compare_timed(self, call: int, outputs: Sequence[Mapping[str, Any]]) -> list[Deviation]:
        """Measure a candidate's outputs of a timed call against those of the last leg."""
        return _readable(self._ask("compare_timed", call=call, outputs=list(outputs)))

    def trim(self) -> tuple[int, int]:
        """Give cached memory back, so that outputs of legs get theirs as a candidate's do.

        Returns:
            The bytes of the GPU's memory that nobody has then, and all of it.
        """
        reply = self._ask("trim")
        return int(reply["free"]), int(reply["total"])

    def rest(self) -> None:
        """Give back what is not needed before the next candidate."""
        self._ask("rest")

    def end(self) -> None:
        """End its process."""
        self.worker.end()

    def _ask(self, op: str, **fields: object) -> dict[str, Any]:
        with self._lock:
            return self._requests.ask(op, **fields)


def _readable(reply: Mapping[str, Any]) -> list[Deviation]:
    """Read what a comparison found.

    Raises:
        CandidateFailed: The outputs are not where the candidate says.
    """
    if reply["deviations"] is None:
        log = f"an output cannot be read where it is said to lie ({reply['log']})."
        raise CandidateFailed(Status.CRASHED, "unreadable_output", log)
    return _deviations(reply["deviations"])


def _deviations(data: Sequence[object]) -> list[Deviation]:
    return [_deviation(item) for item in data]


def _deviation(data: object) -> Deviation:
    return Deviation(**decode_value(data))
