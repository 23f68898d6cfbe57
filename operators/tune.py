"""The operator "tune": new points of a program's declared parameter space.

It proposes a batch; the evaluator checks the points, races them and returns the winner. What was
tried before comes with the parent: timed points feed selection and differential evolution, failed
ones are never proposed again, and a choice that only ever failed is left for last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archives.configuration import (
    Configuration,
    Space,
    read_configuration,
    read_space,
    with_configuration,
)
from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Individual, Lattice, make_toolbox, population
from operators.operator import OperatorContext, Parent, Proposal
from operators.settings import CONFIGURATIONS

__all__ = ["TUNE", "Tune", "propose_points"]

_TRIES_PER_POINT = 24
_ENUMERABLE = 4096
"""Spaces up to this many points are listed when random variation finds nothing new."""

_STRATEGIES = ("step", "mutate", "differ", "sample")
_SHARES = (0.4, 0.2, 0.3, 0.1)
"""Shares of neighbourhood steps, mutation, differential evolution and random points."""


class Tune:
    """Proposes a batch of new configurations of its parent's program."""

    name = "tune"
    num_parents = (1, 1)
    from_failures = False
    settings = (CONFIGURATIONS,)

    def applies(self, context: OperatorContext) -> bool:
        """Return True: whether there is a space is the parent's matter."""
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose new points of the parent's space.

        Reasons: "no_space" where the parent declares none, "space_exhausted" where every point
        was tried.
        """
        parent = parents[0]
        source = parent.candidate.source
        space = read_space(source)
        start = read_configuration(source)
        if not space or Lattice.of(space).encode(start) is None:
            return Proposal(source=None, reason="no_space")
        tried = (
            *parent.tried,
            ConfigurationResult(
                configuration=start,
                status=parent.evaluation.status,
                latency_ms=parent.evaluation.latency_ms,
            ),
        )
        count = CONFIGURATIONS.of(context.settings)
        points = propose_points(space, tried, start, count, rng)
        if not points:
            return Proposal(source=None, reason="space_exhausted")
        return Proposal(
            source=with_configuration(source, points[0]),
            configurations=points,
            note=_note(start, points),
        )


TUNE = Tune()


def propose_points(
    space: Space,
    tried: Sequence[ConfigurationResult],
    start: Configuration,
    count: int,
    rng: np.random.Generator,
) -> tuple[Configuration, ...]:
    """Return up to `count` distinct points that were never tried.

    Args:
        space: The declared space.
        tried: What was tried, with its outcome; points outside the space are passed over.
        start: The point to vary; must lie in the space.
        count: Points wanted, at least 1.
        rng: Random stream.

    Returns:
        The points; fewer than `count`, or none, where the space is nearly exhausted.
    """
    lattice = Lattice.of(space)
    seen = {point for r in tried if (point := lattice.encode(r.configuration)) is not None}
    doomed = _doomed(lattice, tried)
    vary = _Variation(lattice, tried, start, rng)
    chosen: list[tuple[int, ...]] = []
    for _ in range(_TRIES_PER_POINT * count):
        point = vary.draw()
        if point in seen or any(pair in doomed for pair in enumerate(point)):
            continue
        seen.add(point)
        chosen.append(point)
        if len(chosen) == count:
            break
    else:
        rest = _unseen(lattice, seen, count, rng)
        rest.sort(key=lambda point: any(pair in doomed for pair in enumerate(point)))
        chosen += rest[: count - len(chosen)]
    return tuple(lattice.decode(point) for point in chosen)


class _Variation:
    """Draws points near what is known to be good."""

    def __init__(
        self,
        lattice: Lattice,
        tried: Sequence[ConfigurationResult],
        start: Configuration,
        rng: np.random.Generator,
    ) -> None:
        origin = lattice.encode(start)
        assert origin is not None, "the start lies in the space"
        self._start = Individual(origin)
        self._timed = population(lattice, tried)
        self._toolbox = make_toolbox(lattice, rng)
        self._rng = rng

    def draw(self) -> tuple[int, ...]:
        """Return one point; it may have been tried."""
        strategy = _STRATEGIES[self._rng.choice(len(_STRATEGIES), p=_SHARES)]
        if strategy == "sample":
            return tuple(self._toolbox.sample())
        child = Individual(self._origin())
        if strategy == "differ" and len(self._timed) >= 3:
            best = self._toolbox.select(self._timed, 1)[0]
            first, second = self._rng.choice(len(self._timed), size=2, replace=False)
            self._toolbox.differ(child, [best, self._timed[first], self._timed[second]])
        elif strategy == "mutate":
            self._toolbox.mutate(child)
        else:
            self._toolbox.step(child)
        return tuple(child)

    def _origin(self) -> Individual:
        """The parent's point mostly, else one of the three fastest."""
        if not self._timed or self._rng.random() < 0.6:
            return self._start
        best = self._toolbox.select(self._timed, 3)
        return Individual(best[int(self._rng.integers(len(best)))])


def _doomed(lattice: Lattice, tried: Sequence[ConfigurationResult]) -> set[tuple[int, int]]:
    """(parameter, choice) pairs that failed three times and never worked."""
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


def _unseen(
    lattice: Lattice, seen: set[tuple[int, ...]], count: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Distinct points outside `seen` in random order: all of a small space, some of a large one."""
    if lattice.num_points <= _ENUMERABLE:
        points = [lattice.point(n) for n in rng.permutation(lattice.num_points).tolist()]
    else:
        sizes = lattice.sizes
        points = [tuple(int(rng.integers(size)) for size in sizes) for _ in range(8 * count)]
    return [point for point in dict.fromkeys(points) if point not in seen]


def _note(start: Configuration, points: Sequence[Configuration]) -> str:
    changed = [name for name in start if any(point[name] != start[name] for point in points)]
    return f"{len(points)} point{'s' if len(points) != 1 else ''}, varying {', '.join(changed)}"
