"""The sets that a leg is timed on: filled before each leg with contents never seen before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from evaluator.values import Permitted
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.rooms import Room, set_bytes, unchanged
from evaluator.worker.domains import is_real
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.outliers import Runs
from evaluator.worker.stock import Reservoir
from evaluator.worker.timed_variants import mixed_contents, permitted_contents, timed_runs
from evaluator.worker.variants import vary, varying

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
        self._permitted = Permitted()

    @property
    def mixed(self) -> bool:
        """Whether contents are mixed from a stock; else they are drawn."""
        return bool(self._reservoirs)

    def stock(self, seed: int, sets: int) -> Permitted:
        """Draw what contents are mixed from; return what the problem's inputs may be.

        Args:
            seed: Of the first set.
            sets: How many; 0: contents are drawn each time.
        """
        if not sets:
            self._permitted = permitted_contents(self._opened, partial(self._trial, seed))
            return self._permitted
        draws = [self._opened.sample(seed + number) for number in range(sets)]
        self._reservoirs = [
            Reservoir([dense(draw[number]) for draw in draws], domain)
            for number, domain in enumerate(self._opened.domains)
        ]
        contents = mixed_contents(self._opened, self._reservoirs, seed)
        self._permitted = permitted_contents(self._opened, contents)
        return self._permitted

    def fill(self, variants: Sequence[str], seed: int) -> Sequence[list[object]]:
        """Fill a set for each of some variants, and return them."""
        self._place(len(variants))
        sets = self._sets[: len(variants)]
        runs = timed_runs(self._permitted)
        if self.mixed:
            generator = torch.Generator(self._opened.device).manual_seed(seed)
            host = varying(seed, torch.device("cpu"))
            for values, variant in zip(sets, variants, strict=True):
                for number, reservoir in enumerate(self._reservoirs):
                    values[number] = reservoir.mix(
                        values[number], generator, variant, host=host, runs=runs
                    )
            return sets
        for number, (values, variant) in enumerate(zip(sets, variants, strict=True)):
            for at, drawn in enumerate(self._varied(seed + number, variant, runs)[0]):
                target = values[at]
                if isinstance(drawn, torch.Tensor) and isinstance(target, torch.Tensor):
                    target.copy_(drawn)
                else:
                    values[at] = drawn
        return sets

    def _trial(self, seed: int, variant: str, runs: Runs, *, louder: bool) -> list[object] | None:
        """Draw a set; louder: with real numbers twice as large; see `timed_variants.Contents`."""
        values, changed = self._varied(seed, variant, runs)
        for at, domain in enumerate(self._opened.domains):
            value = values[at]
            # A new tensor: a problem may keep what it gave.
            if louder and isinstance(value, torch.Tensor) and is_real(domain.kind):
                values[at] = value * 2
        return values if changed else None

    def _varied(self, seed: int, variant: str, runs: Runs) -> tuple[list[object], bool]:
        """Draw a set and vary one input after the other, for want of room; was any changed?"""
        values, changed = self._opened.sample(seed), False
        generator = varying(seed, self._opened.device)
        for at, domain in enumerate(self._opened.domains):
            values[at], varied = vary(values[at], domain, variant, generator, runs)
            changed = changed or varied
        return values, changed

    def first(self, calls: int) -> Sequence[list[object]]:
        """Return that many sets as they were filled last."""
        return self._sets[:calls]

    def copy_to(self, room: Room, calls: int) -> int:
        """Copy that many sets as they were filled last; return the bytes."""
        room.copy_from(self._filled(), calls)
        return calls * set_bytes(self._opened.inputs)

    def unchanged_in(self, room: Room, calls: int) -> bool:
        """Tell whether a room holds that many sets as they were copied there."""
        # All at once is a fraction of one by one; what lies between tensors is not looked at.
        return room.equals(self._filled(), calls) or unchanged(
            [
                pair
                for place, values in enumerate(self.first(calls))
                for pair in room.pairs(place, values)
            ]
        )

    def release(self) -> None:
        """Free the room; the stock stays."""
        self._sets.clear()
        if self._room is not None:
            self._room.release()
            self._room = None

    def _filled(self) -> Room:
        assert self._room is not None, "sets are filled before they are copied"
        return self._room

    def _place(self, calls: int) -> None:
        if self._room is None or calls > self._room.places:
            self.release()
            self._room = Room(self._driver, self._opened.inputs, calls)
            self._sets = [self._room.values(place) for place in range(calls)]


def dense(value: object) -> object:
    """Return a value, row-major where it is a tensor."""
    return value.contiguous() if isinstance(value, torch.Tensor) else value
