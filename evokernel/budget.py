"""What a run may still spend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evokernel.config import BudgetConfig

__all__ = ["Budget"]


@dataclass(slots=True, kw_only=True)
class Budget:
    """The limits of a run, and what was spent.

    Attributes:
        config: The limits.
        clock: Seconds.
        started: Reading of the clock at the start.
        evaluations: Search evaluations paid for so far, those of earlier sittings included.
    """

    config: BudgetConfig
    clock: Callable[[], float]
    started: float
    evaluations: int = 0

    def pay(self) -> bool:
        """Pay for one evaluation; False, and nothing is paid, where none is left."""
        limit = self.config.max_evaluations
        if limit is not None and self.evaluations >= limit:
            return False
        self.evaluations += 1
        return True

    def exhausted(self, reserve_s: float) -> str:
        """Tell why no further generation may start; "" where one may.

        Args:
            reserve_s: Seconds to be kept for what must still happen after the search.
        """
        limit = self.config.max_evaluations
        if limit is not None and self.evaluations >= limit:
            return f"{limit:,} evaluations are spent"
        minutes = self.config.max_minutes
        if minutes is not None and self.elapsed_s() + reserve_s >= 60 * minutes:
            return f"{minutes:g} minutes are over"
        return ""

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return self.clock() - self.started

    def left_s(self) -> float | None:
        """Return the seconds left; None where time is not limited."""
        minutes = self.config.max_minutes
        return None if minutes is None else max(0.0, 60 * minutes - self.elapsed_s())
