"""Turns on a problem so large that one of its sets has room at a time.

Drawing a set, and computing in float64 what it should give, takes the device up to seconds, judging
a candidate on it a tenth of that. So candidates that are there together are judged set by set: who
wants the set that lies there comes first, then whoever has waited longest. Timing needs the same
place, and leaves no check set there: a candidate that was timed since meets other sets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Turn", "Turns"]

S = TypeVar("S")
"""What a set is, once it was drawn."""
POLL_S = 1.0
_TIMED = -1
_NOTHING = -2


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """Somebody who waits for the place.

    Attributes:
        wanted: Number of the set that is to lie there, or what stands for another use.
    """

    wanted: int


class Turns(Generic[S]):
    """The place of one problem's sets in the device's memory, and who uses it."""

    def __init__(
        self,
        admitted: Callable[[], AbstractContextManager[None]],
        others_wait: Callable[[], bool],
        draw: Callable[[int], S],
        rest: Callable[[], None],
    ) -> None:
        """Start with nothing there.

        Args:
            admitted: Holds memory for the problem: from the first candidate's turn until no
                candidate that had one is judged any more.
            others_wait: Whether others have waited for memory for too long: no further candidate
                begins then before it was given back.
            draw: Draws a set of the plan into the place; returns what it is.
            rest: Gives the place back.
        """
        self._admitted = admitted
        self._others_wait = others_wait
        self._draw = draw
        self._rest = rest
        self._memory = ExitStack()
        self._users = 0
        self._is_entering = False
        self._joined = threading.Condition()
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._is_used = False
        self._lying = _NOTHING
        self._drawn: list[S] = []

    @contextmanager
    def candidate(self) -> Iterator[Turn[S]]:
        """Yield what takes the place for one candidate; memory is held from its first turn on."""
        turn = Turn(self)
        try:
            yield turn
        finally:
            turn.leave()

    def join(self) -> None:
        """Count one more candidate; the first one waits for memory."""
        with self._joined:
            while not self._joined.wait_for(self._may_join, timeout=POLL_S):
                pass
            if self._users:
                self._users += 1
                return
            self._is_entering = True
        try:
            self._memory.enter_context(self._admitted())
            self._users = 1
        finally:
            with self._joined:
                self._is_entering = False
                self._joined.notify_all()

    def leave(self) -> None:
        """Count one less; the last one gives the memory back."""
        with self._joined:
            self._users -= 1
            if self._users:
                return
            self._lying = _NOTHING
            self._joined.notify_all()
            with self._memory:
                self._rest()

    def _may_join(self) -> bool:
        return not self._is_entering and not (self._users and self._others_wait())

    @property
    def is_shared(self) -> bool:
        """Whether another candidate may hold memory beside the one whose turn it is."""
        return self._users > 1

    @contextmanager
    def lying(self, number: int) -> Iterator[S]:
        """Use the place while a set of the plan lies there; it is drawn where it does not.

        Yields:
            What was drawn.
        """
        with self._used(number):
            if self._lying != number:
                self._lying = _NOTHING
                self._drawn = [self._draw(number)]
                self._lying = number
            yield self._drawn[0]

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Use the place for timing."""
        with self._used(_TIMED):
            self._lying = _TIMED
            yield

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Use memory beside the place, in which everything stays as it is."""
        with self._used(_NOTHING):
            yield

    @contextmanager
    def _used(self, wanted: int) -> Iterator[None]:
        me = _Waiting(wanted)
        with self._changed:
            self._waiting.append(me)
            try:
                self._changed.wait_for(lambda: not self._is_used and self._next() is me)
                self._is_used = True
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_used = False
                self._changed.notify_all()

    def _next(self) -> _Waiting:
        same = (one for one in self._waiting if one.wanted == self._lying >= 0)
        return next(same, self._waiting[0])


class Turn(Generic[S]):
    """One candidate's use of the place; by one thread.

    Args:
        turns: The problem's.
    """

    def __init__(self, turns: Turns[S]) -> None:
        self._turns = turns
        self._has_joined = False

    def lying(self, number: int) -> AbstractContextManager[S]:
        """See `Turns.lying`."""
        self._join()
        return self._turns.lying(number)

    def timed(self) -> AbstractContextManager[None]:
        """See `Turns.timed`."""
        self._join()
        return self._turns.timed()

    def beside(self) -> AbstractContextManager[None]:
        """See `Turns.beside`."""
        self._join()
        return self._turns.beside()

    @property
    def is_shared(self) -> bool:
        """See `Turns.is_shared`."""
        return self._turns.is_shared

    def leave(self) -> None:
        """End it."""
        if self._has_joined:
            self._has_joined = False
            self._turns.leave()

    def _join(self) -> None:
        if not self._has_joined:
            self._turns.join()
            self._has_joined = True
