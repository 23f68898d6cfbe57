"""The sets that a leg is timed on: filled before each leg with contents never seen before."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.wire import TIMED_VARIANTS
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.rooms import Room, set_bytes
from evaluator.worker.domains import is_real
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.stock import Reservoir
from evaluator.worker.timed_variants import permitted_variants
from evaluator.worker.variants import vary

__all__ = ["TimedSets", "dense"]


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

    @property
    def mixed(self) -> bool:
        """Whether contents are mixed from a stock; else they are drawn."""
        return bool(self._reservoirs)

    def stock(self, seed: int, sets: int) -> tuple[str, ...]:
        """Draw what contents are mixed from; return the variants that the problem permits.

        Args:
            seed: Of the first set.
            sets: How many; 0: contents are drawn each time.
        """
        if not sets:
            return tuple(one for one in TIMED_VARIANTS if one == "own" or self._permits(one, seed))
        draws = [self._opened.sample(seed + number) for number in range(sets)]
        self._reservoirs = [
            Reservoir([dense(draw[number]) for draw in draws], domain)
            for number, domain in enumerate(self._opened.domains)
        ]
        return permitted_variants(self._opened, self._reservoirs, seed)

    def fill(self, variants: Sequence[str], seed: int) -> Sequence[list[object]]:
        """Fill a set for each of some variants, and return them."""
        self._place(len(variants))
        sets = self._sets[: len(variants)]
        if self.mixed:
            generator = torch.Generator(self._opened.device).manual_seed(seed)
            for values, variant in zip(sets, variants, strict=True):
                for number, reservoir in enumerate(self._reservoirs):
                    values[number] = reservoir.mix(values[number], generator, variant)
            return sets
        for number, (values, variant) in enumerate(zip(sets, variants, strict=True)):
            for at, drawn in enumerate(self._varied(seed + number, variant)[0]):
                target = values[at]
                if isinstance(drawn, torch.Tensor) and isinstance(target, torch.Tensor):
                    target.copy_(drawn)
                else:
                    values[at] = drawn
        return sets

    def _permits(self, variant: str, seed: int) -> bool:
        """Whether a variant changes the inputs, and the model gives finite outputs on it.

        Tried with numbers twice as large: then none of the many sets that follow overflows.
        """
        values, changed = self._varied(seed, variant, louder=True)
        return changed and self._opened.stays_finite(values)

    def _varied(
        self, seed: int, variant: str, *, louder: bool = False
    ) -> tuple[list[object], bool]:
        """Draw a set and vary one input after the other, for want of room; was any changed?"""
        values, changed = self._opened.sample(seed), False
        generator = torch.Generator(self._opened.device).manual_seed(seed)
        for at, domain in enumerate(self._opened.domains):
            values[at], varied = vary(values[at], domain, variant, generator)
            new = values[at]
            changed = changed or varied
            if louder and varied and is_real(domain.kind) and isinstance(new, torch.Tensor):
                new.mul_(2)
        return values, changed

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
