"""A ranking: the best candidates, whatever kind of kernel they are.

What a search breeds from where no archive keeps candidates of different kinds apart: best-first.
"""

from __future__ import annotations

import numpy as np

from archives.grid import Elite

__all__ = ["Ranking"]


class Ranking:
    """The best distinct candidates of all that were offered; stands in for a `Grid` of parents."""

    def __init__(self, size: int) -> None:
        """Make an empty ranking.

        Args:
            size: How many candidates it holds at most.

        Raises:
            ValueError: It could hold none.
        """
        if size < 1:
            raise ValueError(f"a ranking holds at least one candidate, got a size of {size}")
        self._size = size
        self._offers: dict[str, Elite] = {}

    def __len__(self) -> int:
        return min(self._size, len(self._offers))

    @property
    def best(self) -> Elite | None:
        """The candidate with the highest objective; the earliest slot wins a tie."""
        return next(iter(self.elites()), None)

    def elites(self) -> tuple[Elite, ...]:
        """Return the candidates that are held, the best first."""
        ranked = sorted(self._offers.values(), key=lambda elite: (-elite.objective, elite.slot))
        return tuple(ranked[: self._size])

    def add(self, elite: Elite) -> None:
        """Offer a candidate; one that was offered before stays as it was."""
        self._offers.setdefault(elite.candidate, elite)

    def withdraw(self, candidate: str) -> tuple[Elite, ...]:
        """Take a candidate out, the next best moves up; return it, or nothing."""
        gone = self._offers.pop(candidate, None)
        return () if gone is None else (gone,)

    def sample(self, rng: np.random.Generator, count: int = 1) -> tuple[Elite, ...]:
        """Draw candidates uniformly, without replacement.

        Args:
            rng: The random stream.
            count: How many are wanted; fewer come where fewer are held.
        """
        elites = self.elites()
        picks = rng.permutation(len(elites))[:count]
        return tuple(elites[pick] for pick in picks.tolist())
