"""An island: a sub-population of one problem, with its own grid and its own ways."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from archives.attempt import Slot
from archives.grid import Addition, Cell, Elite, Grid
from archives.ranking import Ranking

__all__ = ["ROLES", "Island", "Role"]

_FAILURES_KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The ways of an island.

    Attributes:
        name: For people.
        greed: Probability that the first parent is the island's best, 0 to 1; otherwise any
            elite is drawn, each with the same probability.
        emphasis: Factors on the shares of operators, by name.
    """

    name: str
    greed: float
    emphasis: Mapping[str, float] = field(default_factory=dict)


ROLES = (
    Role(name="balanced", greed=0.4),
    Role(name="climber", greed=0.8, emphasis={"tune": 2.0}),
    Role(name="scout", greed=0.1, emphasis={"sketch": 2.0}),
    Role(name="mixer", greed=0.2, emphasis={"splice": 2.0}),
)
"""Island i starts with role i; a stagnating island takes up the next one."""


class _Offers:
    """What a grid was offered, taken or not: who moves up where a holder is withdrawn."""

    def __init__(self) -> None:
        self._offers: dict[Cell, list[Elite]] = {}

    def add(self, elite: Elite) -> None:
        """Remember an offer."""
        self._offers.setdefault(elite.cell, []).append(elite)

    def withdraw(self, candidate: str, grid: Grid | Ranking) -> None:
        """Take a candidate out of a grid; the best other offer of its cells moves up there.

        Among equals the earliest does, as in `archives.search_transactions.withdraw`.
        """
        for cell, offers in self._offers.items():
            self._offers[cell] = [elite for elite in offers if elite.candidate != candidate]
        for gone in grid.withdraw(candidate):
            for elite in self._offers[gone.cell]:
                grid.add(elite)


class Island:
    """One sub-population.

    `grid` is what parents are drawn from, cells or a ranking; a restart takes it back to the
    `founders`, the elites of generation 0. `record` holds the best that the island ever had in each
    cell, which is what the store keeps. `failures` are its latest children without fitness,
    (attempt, candidate) each: what a repairing operator starts from.
    """

    def __init__(self, index: int, dims: Sequence[int], pool: int = 0) -> None:
        """Make an empty island.

        Args:
            index: Number of the island, from 0.
            dims: Number of bins of each axis.
            pool: Best candidates that parents are drawn from, whatever their cells; 0: they are
                drawn from the elites of cells.
        """
        self.index = index
        self._dims = tuple(dims)
        self._pool = pool
        self.grid = self._nobody()
        self.record = Grid(dims)
        self.idle_generations = 0
        self.changes = 0
        self.founders: list[Elite] = []
        self.failures: deque[tuple[Slot, str]] = deque(maxlen=_FAILURES_KEPT)
        self._bred = _Offers()
        self._recorded = _Offers()

    @property
    def role(self) -> Role:
        """The present ways."""
        return ROLES[(self.index + self.changes) % len(ROLES)]

    def add(self, elite: Elite, *, breeds: bool = True) -> Addition:
        """Offer a candidate to the island.

        Args:
            elite: What is offered.
            breeds: False to keep it out of the grid that parents are drawn from.
        """
        if breeds:
            self.grid.add(elite)
            self._bred.add(elite)
        self._recorded.add(elite)
        return self.record.add(elite)

    def withdraw(self, candidate: str) -> None:
        """Take a candidate out; the best of what else its cells were offered moves up."""
        self._bred.withdraw(candidate, self.grid)
        self._recorded.withdraw(candidate, self.record)
        self.founders = [elite for elite in self.founders if elite.candidate != candidate]

    def rest(self, *, gained: bool, patience: int) -> bool:
        """Count a generation, and change the island's ways where it stagnates.

        Args:
            gained: Whether the generation improved the island.
            patience: Generations without a gain after which the ways change.

        Returns:
            True where the island was restarted too: at every second change.
        """
        self.idle_generations = 0 if gained else self.idle_generations + 1
        if self.idle_generations < patience:
            return False
        self.idle_generations = 0
        self.changes += 1
        if self.changes % 2:
            return False
        self.grid = self._nobody()
        self._bred = _Offers()
        for elite in self.founders:
            self.grid.add(elite)
            self._bred.add(elite)
        return True

    def pick(self, rng: np.random.Generator, count: int, greed: float) -> tuple[Elite, ...]:
        """Draw parents from the grid, without replacement.

        Args:
            rng: Random stream.
            count: How many are wanted; fewer come where the grid holds fewer.
            greed: Probability that the first one is the best, 0 to 1.
        """
        drawn = self.grid.sample(rng, len(self.grid))
        best = self.grid.best
        if best is not None and rng.random() < greed:
            drawn = (best, *(elite for elite in drawn if elite is not best))
        return drawn[:count]

    def _nobody(self) -> Grid | Ranking:
        """No parents yet."""
        return Ranking(self._pool) if self._pool else Grid(self._dims)
