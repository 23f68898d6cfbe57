"""Check sets of a problem too large for all of them: each is drawn when it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from evaluator.gate import Gate
from evaluator.referee.draws import CheckSet
from evaluator.referee.inputs import CHECK_PLAN
from evaluator.referee.session import Session

__all__ = ["SetsInTurn"]


class SetsInTurn(Sequence[CheckSet]):
    """The plan's check sets, drawn one after the other into one place.

    Looking at a set makes the one before it worthless. A set is new each time, so what a candidate
    saw of it before helps nobody. To be used outside the timing gate.
    """

    def __init__(
        self, session: Session, gate: Gate, numbers: Sequence[int] = range(len(CHECK_PLAN))
    ) -> None:
        """Prepare them.

        Args:
            session: The problem; nobody else may draw meanwhile.
            gate: Held while a set is drawn.
            numbers: Which sets of the plan.
        """
        self._session = session
        self._gate = gate
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> CheckSet: ...

    @overload
    def __getitem__(self, index: slice) -> SetsInTurn: ...

    def __getitem__(self, index: int | slice) -> CheckSet | SetsInTurn:
        if isinstance(index, slice):
            return SetsInTurn(self._session, self._gate, self._numbers[index])
        number = self._numbers[index]
        with self._gate.exclusive():
            return self._session.draw_in_turn(number)
