"""A MAP-Elites grid: the best candidate of each cell.

Terms and semantics are those of pyribs' `GridArchive` (threshold at minus infinity): an addition
is `NEW`, `IMPROVE_EXISTING` or `NOT_ADDED` and has an improvement value; coverage is the share of
occupied cells; the QD score is the sum of objectives above a stated offset.

Source: Mouret and Clune, "Illuminating search spaces by mapping elites", arXiv:1504.04909,
algorithm 1; Tjanaka et al., "pyribs", GECCO 2023, section 3.1 (add status and value).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from archives.attempt import Slot

__all__ = ["QD_OFFSET", "AddStatus", "Addition", "Cell", "Elite", "Grid", "merge", "objective_of"]

Cell = tuple[int, ...]
"""One bin index for each axis."""

QD_OFFSET = math.log(0.01)
"""Objective that counts as nothing in the QD score: a speedup of 0.01. Stated in reports."""


class AddStatus(IntEnum):
    """What became of an addition; true where the candidate became an elite."""

    NOT_ADDED = 0
    IMPROVE_EXISTING = 1
    NEW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Elite:
    """The holder of a cell, or a candidate that would be.

    Attributes:
        cell: One bin index for each axis.
        objective: log of `Evaluation.objective_speedup`, maximised.
        slot: The attempt that brought it; its island is the island whose grid this is.
        candidate: Id of the measured candidate.
    """

    cell: Cell
    objective: float
    slot: Slot
    candidate: str

    def __post_init__(self) -> None:
        assert math.isfinite(self.objective), f"an objective is finite, got {self.objective}"

    @property
    def objective_speedup(self) -> float:
        """The speedup that the objective is the logarithm of: the matched one where known."""
        return math.exp(self.objective)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The outcome of one addition.

    Attributes:
        status: Whether the candidate became an elite.
        value: Its objective less the incumbent's; the objective itself in an empty cell.
    """

    status: AddStatus
    value: float


class Grid:
    """The elites of one island, or of a whole problem. Bins are fixed at construction."""

    def __init__(self, dims: Sequence[int], *, qd_offset: float = QD_OFFSET) -> None:
        """Make an empty grid.

        Args:
            dims: Number of bins of each axis, at least 1 each.
            qd_offset: Objective that counts as nothing in the QD score.

        Raises:
            ValueError: There is no axis, or an axis has no bin.
        """
        if not dims or min(dims) < 1:
            raise ValueError(f"a grid needs axes of at least one bin each, got {tuple(dims)}")
        self.dims: Cell = tuple(dims)
        self.qd_offset = qd_offset
        self._elites: dict[Cell, Elite] = {}

    @property
    def num_cells(self) -> int:
        """Number of cells, occupied or not."""
        return math.prod(self.dims)

    @property
    def coverage(self) -> float:
        """Share of the cells that are occupied, 0 to 1."""
        return len(self._elites) / self.num_cells

    @property
    def qd_score(self) -> float:
        """Sum over the elites of objective - `qd_offset`."""
        return math.fsum(elite.objective - self.qd_offset for elite in self._elites.values())

    @property
    def normalised_qd_score(self) -> float:
        """QD score over the number of cells."""
        return self.qd_score / self.num_cells

    @property
    def best(self) -> Elite | None:
        """The elite with the highest objective; the earliest slot wins a tie."""
        return min(self._elites.values(), key=lambda e: (-e.objective, e.slot), default=None)

    def __len__(self) -> int:
        return len(self._elites)

    def elite(self, cell: Cell) -> Elite | None:
        """Return the holder of a cell, or None."""
        return self._elites.get(cell)

    def elites(self) -> tuple[Elite, ...]:
        """Return all elites in the order of their cells."""
        return tuple(self._elites[cell] for cell in sorted(self._elites))

    def add(self, elite: Elite) -> Addition:
        """Offer a candidate to its cell; on a tie the incumbent stays.

        Raises:
            ValueError: The cell does not exist in this grid.
        """
        inside = len(elite.cell) == len(self.dims) and all(
            0 <= index < size for index, size in zip(elite.cell, self.dims, strict=True)
        )
        if not inside:
            raise ValueError(f"the grid has {self.dims} bins, got the cell {elite.cell}")
        incumbent = self._elites.get(elite.cell)
        if incumbent is None:
            self._elites[elite.cell] = elite
            return Addition(status=AddStatus.NEW, value=elite.objective)
        value = elite.objective - incumbent.objective
        if elite.objective <= incumbent.objective:
            return Addition(status=AddStatus.NOT_ADDED, value=value)
        self._elites[elite.cell] = elite
        return Addition(status=AddStatus.IMPROVE_EXISTING, value=value)

    def withdraw(self, candidate: str) -> tuple[Elite, ...]:
        """Take a candidate out of every cell it holds; return what was taken out."""
        gone = tuple(elite for elite in self.elites() if elite.candidate == candidate)
        for elite in gone:
            del self._elites[elite.cell]
        return gone

    def sample(self, rng: np.random.Generator, count: int = 1) -> tuple[Elite, ...]:
        """Draw elites uniformly, without replacement.

        Args:
            rng: The random stream.
            count: How many are wanted; fewer come where the grid holds fewer.

        Returns:
            Distinct elites in the order drawn.
        """
        elites = self.elites()
        if not elites:
            return ()
        picks = rng.choice(len(elites), size=min(count, len(elites)), replace=False)
        return tuple(elites[int(pick)] for pick in picks)


def objective_of(speedup: float) -> float:
    """Return the objective of a speedup: its natural logarithm.

    A QD score is a sum, and one 50x cell must not hide an empty grid.
    """
    return math.log(speedup)


def merge(grids: Iterable[Grid], dims: Sequence[int], *, qd_offset: float = QD_OFFSET) -> Grid:
    """Return the cell-wise best over the grids of a problem's islands.

    Args:
        grids: The islands' grids, in the order of the islands; on a tie the first stays.
        dims: Number of bins of each axis; those of the grids.
        qd_offset: Offset of the merged grid.
    """
    merged = Grid(dims, qd_offset=qd_offset)
    for grid in grids:
        for elite in grid.elites():
            merged.add(elite)
    return merged
