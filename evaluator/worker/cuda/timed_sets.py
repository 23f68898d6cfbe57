"""The sets that a leg is timed on: filled before each leg with contents never seen before."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.rooms import Room, set_bytes
from evaluator.worker.domains import is_real
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.outliers import settle_outliers
from evaluator.worker.stock import Reservoir
from evaluator.worker.variants import vary

__all__ = ["TimedSets", "dense"]

_PARTS = 16


class TimedSets:
    """A room of the reference's own, laid out as a candidate's, so that both meet equal memory.

    Args:
        driver: The device.
        opened: The problem.
    """

    def __init__(self, driver: Driver, opened: OpenedProblem) -> None:
        self._driver = driver
        self._opened = opened
        self._room: Room | None = None
        self._sets: list[list[object]] = []
        self._reservoirs: list[Reservoir] = []
        self._outlying: bool | None = None

    @property
    def mixed(self) -> bool:
        """Whether contents are mixed from a stock; else they are drawn."""
        return bool(self._reservoirs)

    def stock(self, seed: int, sets: int) -> None:
        """Draw what contents are mixed from."""
        draws = [self._opened.sample(seed + number) for number in range(sets)]
        self._reservoirs = [
            Reservoir([dense(draw[number]) for draw in draws], domain)
            for number, domain in enumerate(self._opened.domains)
        ]
        settle_outliers(self._opened, self._reservoirs, seed)

    def fill(self, calls: int, seed: int) -> Sequence[list[object]]:
        """Fill that many sets, and return them."""
        self._place(calls)
        sets = self._sets[:calls]
        if self.mixed:
            generator = torch.Generator(self._opened.device).manual_seed(seed)
            for values in sets:
                for number, reservoir in enumerate(self._reservoirs):
                    values[number] = reservoir.mix(values[number], generator)
            return sets
        for number, values in enumerate(sets):
            for at, drawn in enumerate(self._drawn(seed + number)):
                target = values[at]
                if isinstance(drawn, torch.Tensor) and isinstance(target, torch.Tensor):
                    target.copy_(drawn)
                else:
                    values[at] = drawn
        return sets

    def _drawn(self, seed: int) -> list[object]:
        """Draw a set, with outliers unless the model overflows on them; see `outliers`."""
        opened = self._opened
        values = opened.sample(seed)
        if self._outlying is False:
            return values
        if self._outlying is None:
            # Tried with larger ones: then none of the many sets that follow overflows.
            self._outlying = opened.stays_finite(self._with_outliers(values, seed, twice=True))
            del values
            return self._drawn(seed)
        # Every other set has none, as where they are mixed.
        return values if seed % 2 else self._with_outliers(values, seed)

    def _with_outliers(
        self, values: list[object], seed: int, *, twice: bool = False
    ) -> list[object]:
        """Put outliers among the numbers of a set, one input after the other, for want of room."""
        generator = torch.Generator(self._opened.device).manual_seed(seed)
        for at, domain in enumerate(self._opened.domains):
            own = values[at]
            values[at], varied = vary(own, domain, "spiked", generator)
            new = values[at]
            if twice and varied and is_real(domain.kind) and isinstance(new, torch.Tensor):
                assert isinstance(own, torch.Tensor)
                _double(new, own)
        return values

    def first(self, calls: int) -> Sequence[list[object]]:
        """Return that many sets as they were filled last."""
        return self._sets[:calls]

    def copy_to(self, room: Room, calls: int) -> int:
        """Copy that many sets as they were filled last; return the bytes."""
        assert self._room is not None, "sets are filled before they are copied"
        room.copy_from(self._room, calls)
        return calls * set_bytes(self._opened.inputs)

    def release(self) -> None:
        """Free the room; the stock stays."""
        self._sets.clear()
        if self._room is not None:
            self._room.release()
            self._room = None

    def _place(self, calls: int) -> None:
        if self._room is None or calls > self._room.places:
            self.release()
            self._room = Room(self._driver, self._opened.inputs, calls)
            self._sets = [self._room.values(place) for place in range(calls)]


def dense(value: object) -> object:
    """Return a value, row-major where it is a tensor."""
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _double(new: torch.Tensor, own: torch.Tensor) -> None:
    """Double what differs, part by part: a problem may leave no room for more sets."""
    if not new.ndim:
        new, own = new.view(1), own.view(1)
    longest = max(range(new.ndim), key=lambda dimension: new.shape[dimension])
    for number in range(_PARTS):
        start, end = (new.shape[longest] * at // _PARTS for at in (number, number + 1))
        part, like = (one.narrow(longest, start, end - start) for one in (new, own))
        part.copy_(torch.where(part == like, part, 2 * part))
