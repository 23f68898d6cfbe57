"""Variation of points of a space: near what is known to be good, and anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import combinations

import numpy as np

from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Individual, Lattice, make_toolbox, population

__all__ = ["ENUMERABLE", "Point", "Variation", "doomed_choices", "nearby", "unseen_points"]

ENUMERABLE = 4096
"""Spaces up to this many points can be listed."""

Point = tuple[int, ...]
"""The index of a choice for each parameter of a space."""

_STRATEGIES = ("step", "mutate", "differ", "sample")
_SHARES = (0.4, 0.2, 0.3, 0.1)
"""Shares of neighbourhood steps, mutation, differential evolution and random points."""
_FASTEST = 3
"""The fastest points known, one of which may be varied in place of the parent's."""


class Variation:
    """Draws points near what is known to be good."""

    def __init__(
        self,
        lattice: Lattice,
        tried: Sequence[ConfigurationResult],
        start: Point,
        rng: np.random.Generator,
    ) -> None:
        """Look at what was tried.

        Args:
            lattice: The space.
            tried: Points with their outcome.
            start: The point to vary.
            rng: Random stream.
        """
        self._start = Individual(start)
        self._timed = population(lattice, tried)
        self._toolbox = make_toolbox(lattice, rng)
        self._fastest = self._toolbox.select(self._timed, _FASTEST)
        self._rng = rng

    def draw(self) -> Point:
        """Return one point; it may have been tried."""
        strategy = _STRATEGIES[self._rng.choice(len(_STRATEGIES), p=_SHARES)]
        if strategy == "sample":
            return tuple(self._toolbox.sample())
        child = Individual(self._origin())
        if strategy == "differ" and len(self._timed) >= 3:
            best = self._fastest[0]
            first, second = self._rng.choice(len(self._timed), size=2, replace=False)
            self._toolbox.differ(child, [best, self._timed[first], self._timed[second]])
        elif strategy == "mutate":
            self._toolbox.mutate(child)
        else:
            self._toolbox.step(child)
        return tuple(child)

    def best(self, count: int) -> list[Point]:
        """Return the fastest points that were tried; the start where none was timed."""
        fastest = [tuple(one) for one in self._toolbox.select(self._timed, count)]
        return fastest or [tuple(self._start)]

    def _origin(self) -> Individual:
        """The parent's point mostly, else one of the three fastest."""
        if not self._timed or self._rng.random() < 0.6:
            return self._start
        return Individual(self._fastest[int(self._rng.integers(len(self._fastest)))])


def nearby(lattice: Lattice, point: Point) -> Iterator[Point]:
    """Yield the points that differ in one parameter, or in two by one step each.

    Two at once, in all four directions: a search along single parameters stops where each of two
    is right for the other one alone.
    """
    for axis, size in enumerate(lattice.sizes):
        for index in range(size):
            if index != point[axis]:
                yield _moved(point, {axis: index})
    steps = [
        (axis, point[axis] + step)
        for axis, size in enumerate(lattice.sizes)
        for step in (-1, 1)
        if 0 <= point[axis] + step < size
    ]
    for (axis, index), (other, second) in combinations(steps, 2):
        if axis != other:
            yield _moved(point, {axis: index, other: second})


def doomed_choices(lattice: Lattice, tried: Sequence[ConfigurationResult]) -> Set[tuple[int, int]]:
    """Return the (parameter, choice) pairs that failed three times and never worked."""
    failures: dict[tuple[int, int], int] = {}
    worked: set[tuple[int, int]] = set()
    for result in tried:
        point = lattice.encode(result.configuration)
        if point is None:
            continue
        for pair in enumerate(point):
            if result.status is Status.OK:
                worked.add(pair)
            else:
                failures[pair] = failures.get(pair, 0) + 1
    return {pair for pair, count in failures.items() if count >= 3 and pair not in worked}


def unseen_points(
    lattice: Lattice, seen: Set[Point], count: int, rng: np.random.Generator
) -> list[Point]:
    """Return distinct points outside `seen` in random order.

    Args:
        lattice: The space.
        seen: Points to leave out.
        count: Points drawn where the space cannot be listed; else all of them come.
        rng: Random stream.
    """
    if lattice.num_points <= ENUMERABLE:
        points = [lattice.point(n) for n in rng.permutation(lattice.num_points).tolist()]
    else:
        drawn = rng.integers(lattice.sizes, size=(count, len(lattice.sizes)))
        points = [tuple(row) for row in drawn.tolist()]
    return [point for point in dict.fromkeys(points) if point not in seen]


def _moved(point: Point, changes: dict[int, int]) -> Point:
    return tuple(changes.get(axis, index) for axis, index in enumerate(point))
