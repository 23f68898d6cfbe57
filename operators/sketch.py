"""The operator "sketch": a parameterised schedule for a pattern of the operator graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from archives.candidate import Candidate
from archives.configuration import Configuration, Space, read_configuration, read_space
from operators.founding import REPEATS
from operators.genetics import Lattice
from operators.operator import OperatorContext, Parent, Proposal
from operators.relatives import TRANSFER, points_of_relatives
from operators.settings import CONFIGURATIONS, Setting
from operators.sketches.cpp.registers import fit_registers
from operators.sketches.registry import SKETCHES
from operators.sketches.sketch import Sketch

__all__ = ["SketchOperator"]

Point = dict[str, bool | int | float | str]

_OF_RELATIVES = 2
"""Points of relatives among the first ones of a sketch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchOperator:
    """Writes a sketch that fits the problem, with a few points of its space to try.

    Attributes:
        sketches: Those to choose from.
        settings: What may be set.
    """

    name: str = "sketch"
    num_parents: tuple[int, int] = (0, 0)
    from_failures: bool = False
    sketches: tuple[Sketch, ...] = SKETCHES
    settings: tuple[Setting, ...] = (CONFIGURATIONS, REPEATS, TRANSFER)

    def applies(self, context: OperatorContext) -> bool:
        """Tell whether there is a graph and a sketch for the device."""
        return context.graph is not None and any(
            sketch.device == context.device for sketch in self.sketches
        )

    def num_programs(self, context: OperatorContext) -> int:
        """Return how many distinct sketches fit; see `operators.founding`."""
        key = context.problem.key
        return len({_program_id(key, source) for _, source in self._written(context)})

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose a program, rather one that this problem has not seen.

        Args:
            parents: None are wanted.
            context: Its graph is matched; its `known` ids tell which programs are new.
            rng: Chooses the sketch and the points.

        Reasons: "no_sketch_matches", and "sketches_exhausted" where all that fit are known and
        none is to be repeated.
        """
        written = self._written(context)
        if not written:
            return Proposal(source=None, reason="no_sketch_matches")
        fresh = [(name, source) for name, source in written if not _is_known(context, source)]
        if not fresh and not REPEATS.of(context.settings):
            return Proposal(source=None, reason="sketches_exhausted")
        choices = fresh or written
        name, source = choices[int(rng.integers(len(choices)))]
        count = CONFIGURATIONS.of(context.settings)
        first = [dict(read_configuration(source))] if fresh else []
        space = read_space(source)
        first += [point for point in _of_relatives(source, context) if point not in first]
        points = _points(space, first[:count], count, rng)
        note = f"sketch {name}" if fresh else f"sketch {name}, other points of a known program"
        return Proposal(source=source, configurations=points, note=note)

    def _written(self, context: OperatorContext) -> list[tuple[str, str]]:
        if context.graph is None:
            return []
        found = []
        for sketch in self.sketches:
            if sketch.device == context.device:
                source = sketch.write(context.problem, context.graph)
                if source is not None:
                    found.append((sketch.name, fit_registers(source, context.vector_bits)))
        return found


def _of_relatives(source: str, context: OperatorContext) -> list[Point]:
    """The points of a written sketch that were best for related problems."""
    if not TRANSFER.of(context.settings):
        return []
    lattice = Lattice.of(read_space(source))
    start = read_configuration(source)
    found = points_of_relatives(lattice, context.relatives, start, _OF_RELATIVES)
    return [lattice.decode(point) for point in found]


def _is_known(context: OperatorContext, source: str) -> bool:
    return _program_id(context.problem.key, source) in context.known


@lru_cache(maxsize=4096)
def _program_id(problem_key: str, source: str) -> str:
    """The id of a written sketch; kept, as each proposal asks for those of all that fit."""
    return Candidate.of(problem_key, source).program_id


def _points(
    space: Space,
    first: list[Point],
    count: int,
    rng: np.random.Generator,
) -> tuple[Configuration, ...]:
    """`count` distinct points, those of `first` included; fewer where the space is smaller."""
    points = list(first)
    size = int(np.prod([len(choices) for choices in space.values()], dtype=float))
    for _ in range(20 * count):
        if len(points) >= min(count, size):
            break
        point = {name: choices[int(rng.integers(len(choices)))] for name, choices in space.items()}
        if point not in points:
            points.append(point)
    return tuple(points)
