"""Check sets of a problem too large for all of them: each is drawn when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

from evaluator.referee.inputs import CHECK_PLAN

__all__ = ["SetsInTurn"]

S = TypeVar("S")


class SetsInTurn(Sequence[S]):
    """The plan's check sets, drawn one after the other into one place.

    Looking at a set makes the one before it worthless. A set is new each time, so what a candidate
    saw of it before helps nobody. To be used outside the timing gate.
    """

    def __init__(
        self, draw: Callable[[int], S], numbers: Sequence[int] = range(len(CHECK_PLAN))
    ) -> None:
        """Prepare them.

        Args:
            draw: Draws the set of that number anew; nobody else may draw meanwhile.
            numbers: Which sets of the plan.
        """
        self._draw = draw
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> S: ...

    @overload
    def __getitem__(self, index: slice) -> SetsInTurn[S]: ...

    def __getitem__(self, index: int | slice) -> S | SetsInTurn[S]:
        if isinstance(index, slice):
            return SetsInTurn(self._draw, self._numbers[index])
        return self._draw(self._numbers[index])
