"""The operator "tune": new points of a program's declared parameter space.

It proposes a batch; the evaluator checks the points, races them and returns the winner. What was
tried before comes with the parent. A batch holds, in this order:

1. what was best for related programs, where it was not tried yet (`relatives`);
2. once enough was tried, what a surrogate of it thinks most likely to be among the best
   (`surrogate`), of all points or of a pool around the fastest ones;
3. a share of points that are drawn as before there is a surrogate: steps, mutation,
   differential evolution and random points.

What was tried is never proposed again, and a choice that only ever failed is left for last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from archives.configuration import (
    Configuration,
    Space,
    read_configuration,
    read_space,
    with_configuration,
)
from archives.evaluation import ConfigurationResult
from operators.genetics import Lattice
from operators.operator import OperatorContext, Parent, Proposal
from operators.relatives import TRANSFER, Relative, points_of_relatives
from operators.settings import CONFIGURATIONS, Setting
from operators.surrogate import Surrogate
from operators.variation import (
    ENUMERABLE,
    Point,
    Variation,
    doomed_choices,
    nearby,
    unseen_points,
)

__all__ = ["SURROGATE", "TUNE", "Tune", "propose_points"]

SURROGATE = Setting(name="surrogate", default=1, least=0, most=1)
"""Whether points are ranked by what was learned from those that were tried: 1 or 0."""

_TRIES_PER_POINT = 24
_DRAWN = 512
_SAMPLED = 1024
"""Points of the pool that are varied, and random ones, in a space that cannot be listed."""
_ORIGINS = 3
"""The fastest points whose neighbours join the pool."""
_PARTS = (0.25, 0.25, 0.5)
"""Shares of a batch that lie near the fastest point, that are drawn without asking the surrogate,
and that are the most promising of all."""
_OF_RELATIVES = 2
"""Points of relatives in one batch, at most half of it; of odd ones, half is rounded at random."""


class Tune:
    """Proposes a batch of new configurations of its parent's program."""

    name = "tune"
    num_parents = (1, 1)
    from_failures = False
    settings = (CONFIGURATIONS, SURROGATE, TRANSFER)

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
        points = propose_points(
            space,
            tried,
            start,
            CONFIGURATIONS.of(context.settings),
            rng,
            relatives=context.relatives if TRANSFER.of(context.settings) else (),
            learns=bool(SURROGATE.of(context.settings)),
        )
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
    *,
    relatives: Sequence[Relative] = (),
    learns: bool = True,
) -> tuple[Configuration, ...]:
    """Return up to `count` distinct points that were never tried.

    Args:
        space: The declared space.
        tried: What was tried, with its outcome; points outside the space are passed over.
        start: The point to vary; must lie in the space.
        count: Points wanted, at least 1.
        rng: Random stream.
        relatives: What was best elsewhere, bests before second bests.
        learns: Whether a surrogate is asked.

    Returns:
        The points; fewer than `count`, or none, where the space is nearly exhausted.
    """
    lattice = Lattice.of(space)
    origin = lattice.encode(start)
    assert origin is not None, "the start lies in the space"
    batch = _Batch.of(lattice, tried, count)
    if relatives:
        offered = points_of_relatives(lattice, relatives, start, len(relatives))
        half = (count + int(rng.integers(2))) // 2
        batch.take(offered, min(_OF_RELATIVES, half))
    variation = Variation(lattice, tried, origin, rng)
    surrogate = Surrogate.fit(lattice, tried, rng) if learns else None
    if surrogate is not None:
        near, explored, _ = rng.multinomial(batch.missing, _PARTS).tolist()
        beside = batch.sound(nearby(lattice, variation.best(1)[0]))
        batch.take(_ranked(surrogate, beside), near)
        pool = batch.sound(_pool(lattice, variation, batch, rng))
        batch.take(_ranked(surrogate, pool), batch.missing - explored)
    draws = (variation.draw() for _ in range(_TRIES_PER_POINT * count))
    batch.take(draws, batch.missing)
    if batch.missing:
        rest = unseen_points(lattice, batch.seen, 8 * count, rng)
        sound = set(batch.sound(rest))
        rest.sort(key=lambda point: point not in sound)
        batch.chosen += rest[: batch.missing]
    return tuple(lattice.decode(point) for point in batch.chosen)


@dataclass(slots=True, kw_only=True)
class _Batch:
    """The points of a proposal.

    Attributes:
        count: How many are wanted.
        seen: Points that were tried or are chosen.
        doomed: (parameter, choice) pairs to be avoided.
        chosen: The points so far.
    """

    count: int
    seen: set[Point]
    doomed: frozenset[tuple[int, int]]
    chosen: list[Point]

    @classmethod
    def of(cls, lattice: Lattice, tried: Sequence[ConfigurationResult], count: int) -> _Batch:
        seen = {point for r in tried if (point := lattice.encode(r.configuration)) is not None}
        doomed = frozenset(doomed_choices(lattice, tried))
        return cls(count=count, seen=seen, doomed=doomed, chosen=[])

    @property
    def missing(self) -> int:
        return self.count - len(self.chosen)

    def sound(self, points: Iterable[Point]) -> list[Point]:
        """Leave out what was tried and what would fail."""
        return [point for point in points if self._is_sound(point)]

    def take(self, points: Iterable[Point], count: int) -> None:
        """Choose the first sound ones, at most so many."""
        if count <= 0:
            return
        for point in points:
            if self._is_sound(point):
                self.seen.add(point)
                self.chosen.append(point)
                count -= 1
                if count == 0:
                    return

    def _is_sound(self, point: Point) -> bool:
        return point not in self.seen and not any(pair in self.doomed for pair in enumerate(point))


def _pool(
    lattice: Lattice, variation: Variation, batch: _Batch, rng: np.random.Generator
) -> list[Point]:
    """What the surrogate ranks: all that was not tried, or some of it in a large space."""
    pool = unseen_points(lattice, batch.seen, _SAMPLED, rng)
    if lattice.num_points > ENUMERABLE:
        for point in variation.best(_ORIGINS):
            pool += nearby(lattice, point)
        pool += [variation.draw() for _ in range(_DRAWN)]
    return list(dict.fromkeys(pool))


def _ranked(surrogate: Surrogate, pool: Sequence[Point]) -> list[Point]:
    """The pool, the most promising first; of equal ones, those that came first."""
    if not pool:
        return []
    means = surrogate.score(np.array(pool, dtype=np.int64))
    return [pool[index] for index in np.argsort(-means, kind="stable").tolist()]


def _note(start: Configuration, points: Sequence[Configuration]) -> str:
    changed = [name for name in start if any(point[name] != start[name] for point in points)]
    return f"{len(points)} point{'s' if len(points) != 1 else ''}, varying {', '.join(changed)}"
