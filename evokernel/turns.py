"""Turns: which problem's generation comes next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from evokernel.kin import IsDue
from evokernel.search import ProblemSearch

__all__ = ["Turn", "Turns"]


@dataclass(frozen=True, slots=True, order=True)
class Turn:
    """One problem's turn; the smallest comes first: by block, by generation, by place."""

    block: int
    generation: int
    index: int
    search: ProblemSearch = field(compare=False)


class Turns:
    """Deals out turns, generation by generation, as many at a time as are asked for.

    Nobody waits for a whole generation: the next turn is the first that is due. The very first of
    all that are under way always is, since it sees of others only what came before it.
    """

    def __init__(self, searches: Sequence[ProblemSearch], together: int, is_due: IsDue) -> None:
        """Line up.

        Args:
            searches: The problems, each at its next generation.
            together: Problems that advance together; 0: all of them.
            is_due: Tells whether a turn can be given.
        """
        self._is_due = is_due
        size = together or len(searches)
        self._queue = [Turn(s.index // size, s.reached + 1, s.index, s) for s in searches]
        self._given: dict[int, ProblemSearch] = {}
        self._change = asyncio.Event()

    def __len__(self) -> int:
        """Turns that wait."""
        return len(self._queue)

    async def take(self) -> Turn | None:
        """Return the next turn, as soon as one is due; None where none waits."""
        while self._queue:
            under_way = [*(turn.search for turn in self._queue), *self._given.values()]
            for turn in sorted(self._queue):
                if self._is_due(turn.search, turn.generation, under_way):
                    self._queue.remove(turn)
                    self._given[turn.index] = turn.search
                    return turn
            assert self._given, "the first of all turns is due"
            self._change.clear()
            await self._change.wait()
        return None

    def give_back(self, turn: Turn, *, again: bool) -> None:
        """End a turn.

        Args:
            turn: What `take` returned.
            again: Whether the problem wants another one.
        """
        del self._given[turn.index]
        if again:
            self._queue.append(replace(turn, generation=turn.generation + 1))
        self._change.set()
