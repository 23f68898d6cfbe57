"""The pool's seats: which of them takes a request, and whether their numbers compare."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archives.rates import Rates
from evaluator.evaluator import Capacity
from problems.errors import EvaluatorError

__all__ = ["Seat", "difference", "free_seat", "joined"]

_REMEMBERED_PROBLEMS = 8
_SOFTWARE = ("torch", "triton", "cuda", "driver")
"""Versions on which the time of a kernel on a GPU depends; those that a resumed run must have."""


@dataclass(slots=True, kw_only=True, eq=False)
class Seat:
    """One actor, or the one that is to take its place.

    Attributes:
        actor: Ray's handle.
        room: Requests that it takes at a time.
        busy: Requests that it works on.
        problems: Keys of the problems it has open, most recent last.
        rates: What its device was measured to reach, for whoever takes its place.
        words: Its device and host, for people.
        settling: Waits for a new actor, while the seat takes no requests; None: it takes them.
    """

    actor: Any
    room: int = 1
    busy: int = 0
    problems: OrderedDict[str, None] = field(default_factory=OrderedDict)
    rates: Rates | None = None
    words: str = "a device"
    settling: asyncio.Task[None] | None = None

    def take(self, key: str) -> None:
        """Give it a request on a problem."""
        self.busy += 1
        self.problems[key] = None
        self.problems.move_to_end(key)
        while len(self.problems) > _REMEMBERED_PROBLEMS:
            self.problems.popitem(last=False)


def free_seat(seats: Sequence[Seat], key: str) -> Seat | None:
    """Return the free seat that a problem's request should take; None: it waits.

    Opening a problem takes seconds: it stays where it is open, unless others have little to do.

    Args:
        seats: All seats.
        key: Of the problem.
    """
    there = [seat for seat in seats if seat.settling is None]
    homes = [seat for seat in there if key in seat.problems]
    free = [
        seat
        for seat in there
        if seat.busy < (seat.room if seat in homes or not homes else seat.room / 2)
    ]
    return min(free, key=lambda one: (one not in homes, one.busy), default=None)


def joined(capacities: Sequence[Capacity], words: Sequence[str]) -> Capacity:
    """Return what several referees can take together.

    Args:
        capacities: Of each one, at least one.
        words: The device and host of each, for people.

    Raises:
        EvaluatorError: Their numbers would not compare: the devices differ in model or software.
    """
    first = capacities[0]
    for capacity, other in zip(capacities[1:], words[1:], strict=True):
        if unlike := difference(first, capacity):
            raise EvaluatorError(
                f"{words[0]} and {other} cannot measure in one run, their numbers would not "
                f"compare: {unlike}; give Ray devices of one model with the same software "
                "(CUDA_VISIBLE_DEVICES, as each node's Ray is started, leaves others out)"
            )
    return replace(
        first,
        in_flight=sum(capacity.in_flight for capacity in capacities),
        noise_floor=max(capacity.noise_floor for capacity in capacities),
        memory_bytes=min(capacity.memory_bytes for capacity in capacities),
        noisy=any(capacity.noisy for capacity in capacities),
    )


def difference(first: Capacity, other: Capacity) -> str:
    """Name what keeps two referees' numbers from comparing; "" for nothing.

    As where a run is resumed: GPUs of one model with the same software compare, CPUs of two
    hosts never do.
    """
    one, two = first.device, other.device
    if one.kind == two.kind == "cuda":
        if one.name != two.name:
            return f"the first is {one}, the second is {two}"
        for part in _SOFTWARE:
            here, there = (device.versions.get(part, "none") for device in (one, two))
            if here != there:
                return f"the first has {part} {here}, the second has {there}"
    elif one.uuid != two.uuid:
        return f"the first is {one}, the second is {two} of another machine"
    if first.referee_version != other.referee_version:
        return (
            f"the first has referee {first.referee_version}, the second has "
            f"{other.referee_version}: install one version of EvoKernel everywhere"
        )
    return ""
