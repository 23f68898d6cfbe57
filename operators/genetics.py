"""A program's parameter space as a DEAP search space.

A point of the space is a list of indices, one for each parameter, into its choices in declared
order; DEAP's `Toolbox`, `Fitness` and selections work on such lists. DEAP's own variation
operators draw from Python's global random stream, which would tie the result of a run to
whatever else draws from it. So variation is written here in DEAP's form (individuals in, a tuple
of individuals out) with a numpy Generator bound in the toolbox, and from DEAP come the parts
that draw nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from deap import base, tools

from archives.configuration import Configuration, Space
from archives.evaluation import ConfigurationResult, Status

__all__ = [
    "Individual",
    "Lattice",
    "cx_uniform",
    "make_toolbox",
    "mut_differential",
    "mut_step",
    "mut_uniform_int",
    "population",
]

_Value = bool | int | float | str


class _Latency(base.Fitness):  # type: ignore[misc] # DEAP ships no types
    """One objective: a call's time in ms, minimised."""

    weights = (-1.0,)


class Individual(list[int]):
    """A point: one index for each parameter; `fitness` is DEAP's, invalid until timed."""

    def __init__(self, indices: Sequence[int]) -> None:
        super().__init__(indices)
        self.fitness = _Latency()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """The index form of a space.

    Attributes:
        names: Parameters in declared order.
        choices: Distinct permitted values of each, in declared order.
    """

    names: tuple[str, ...]
    choices: tuple[tuple[_Value, ...], ...]

    @classmethod
    def of(cls, space: Space) -> Lattice:
        """Build the lattice of a declared space."""
        return cls(
            names=tuple(space),
            choices=tuple(_distinct(values) for values in space.values()),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of choices of each parameter, each at least 1."""
        return tuple(len(values) for values in self.choices)

    @property
    def num_points(self) -> int:
        """Number of points, at least 1."""
        count = 1
        for size in self.sizes:
            count *= size
        return count

    def encode(self, configuration: Configuration) -> tuple[int, ...] | None:
        """Return the indices of a configuration; None where it lies outside the space."""
        if set(configuration) != set(self.names):
            return None
        indices = []
        for name, values in zip(self.names, self.choices, strict=True):
            index = _index(values, configuration[name])
            if index is None:
                return None
            indices.append(index)
        return tuple(indices)

    def nearest(self, configuration: Configuration, start: Configuration) -> tuple[int, ...]:
        """Return the point that is most like a configuration of a similar space.

        A number that is no choice here becomes the choice of the nearest logarithm; any other
        value, that of the start.

        Args:
            configuration: Has the parameters of this space.
            start: A point of this space.
        """
        indices = []
        for name, values in zip(self.names, self.choices, strict=True):
            index = _index(values, configuration[name])
            if index is None:
                index = _nearest(values, configuration[name])
            if index is None:
                index = _index(values, start[name])
            assert index is not None, "the start lies in the space"
            indices.append(index)
        return tuple(indices)

    def decode(self, point: Sequence[int]) -> dict[str, _Value]:
        """Return the configuration at the given indices."""
        return {
            name: values[index]
            for name, values, index in zip(self.names, self.choices, point, strict=True)
        }

    def point(self, number: int) -> tuple[int, ...]:
        """Return the point of a number, 0 to `num_points` - 1, in mixed radix."""
        indices = []
        for size in reversed(self.sizes):
            number, index = divmod(number, size)
            indices.append(index)
        return tuple(reversed(indices))


def population(lattice: Lattice, tried: Sequence[ConfigurationResult]) -> list[Individual]:
    """Return the timed points among results as individuals with their fitness.

    A point that was timed more than once counts with its best time.
    """
    best: dict[tuple[int, ...], float] = {}
    for result in tried:
        point = lattice.encode(result.configuration)
        if point is None or result.status is not Status.OK or result.latency_ms is None:
            continue
        best[point] = min(result.latency_ms, best.get(point, result.latency_ms))
    individuals = []
    for point, latency_ms in best.items():
        individual = Individual(point)
        individual.fitness.values = (latency_ms,)
        individuals.append(individual)
    return individuals


def make_toolbox(lattice: Lattice, rng: np.random.Generator) -> base.Toolbox:
    """Return a toolbox bound to a space and a random stream.

    Registered: `step`, `mutate`, `differ` (variation), `mate` (crossover), `sample` (a point
    anywhere) and `select` (the k best by time).
    """
    toolbox = base.Toolbox()
    toolbox.register("step", mut_step, sizes=lattice.sizes, rng=rng)
    toolbox.register("mutate", mut_uniform_int, sizes=lattice.sizes, rng=rng)
    toolbox.register("differ", mut_differential, sizes=lattice.sizes, rng=rng)
    toolbox.register("mate", cx_uniform, rng=rng)
    toolbox.register(
        "sample", lambda: Individual([int(rng.integers(size)) for size in lattice.sizes])
    )
    toolbox.register("select", tools.selBest)
    return toolbox


def mut_step(
    individual: Individual, sizes: Sequence[int], rng: np.random.Generator
) -> tuple[Individual]:
    """Move one or two parameters to a neighbouring choice, in place."""
    free = [axis for axis, size in enumerate(sizes) if size > 1]
    if not free:
        return (individual,)
    count = min(len(free), 1 + int(rng.random() < 0.3))
    for axis in rng.choice(free, size=count, replace=False).tolist():
        step = 1 if rng.random() < 0.5 else -1
        moved = individual[axis] + step
        individual[axis] = moved if 0 <= moved < sizes[axis] else individual[axis] - step
    return (individual,)


def mut_uniform_int(
    individual: Individual, sizes: Sequence[int], rng: np.random.Generator
) -> tuple[Individual]:
    """Redraw each parameter with probability 1/n, at least one, in place.

    Source: the operator of `deap.tools.mutUniformInt`, with its stream passed in.
    """
    axes = np.flatnonzero(rng.random(len(sizes)) < 1.0 / len(sizes)).tolist()
    for axis in axes or [int(rng.integers(len(sizes)))]:
        individual[axis] = int(rng.integers(sizes[axis]))
    return (individual,)


def mut_differential(
    individual: Individual,
    donors: Sequence[Individual],
    sizes: Sequence[int],
    rng: np.random.Generator,
) -> tuple[Individual]:
    """Replace parameters by base + F x (first - second) of the donors, in place.

    Args:
        individual: The target vector.
        donors: Three points: the base, and the two whose difference is added.
        sizes: Number of choices of each parameter; results are clipped into them.
        rng: Random stream.

    Source: Storn and Price, Differential Evolution, J. Global Optimization 11 (1997), eqs. 2-4,
    DE/best/1/bin with CR = 0.7 and F drawn from [0.5, 1) for each child, rounded to indices.
    """
    origin, first, second = donors
    weight = rng.uniform(0.5, 1.0)
    crossed = rng.random(len(sizes)) < 0.7
    crossed[int(rng.integers(len(sizes)))] = True
    for axis in np.flatnonzero(crossed).tolist():
        value = round(origin[axis] + weight * (first[axis] - second[axis]))
        individual[axis] = min(max(value, 0), sizes[axis] - 1)
    return (individual,)


def cx_uniform(
    first: Individual, second: Individual, rng: np.random.Generator
) -> tuple[Individual, Individual]:
    """Exchange each parameter with probability 1/2, in place.

    Source: the operator of `deap.tools.cxUniform`, with its stream passed in.
    """
    for axis in np.flatnonzero(rng.random(len(first)) < 0.5).tolist():
        first[axis], second[axis] = second[axis], first[axis]
    return first, second


def _nearest(values: Sequence[_Value], value: _Value) -> int | None:
    """Position of the positive number of the same type that is nearest; None: there is none."""
    if isinstance(value, bool | str) or value <= 0:
        return None
    distances = {
        index: abs(math.log(choice) - math.log(value))
        for index, choice in enumerate(values)
        if not isinstance(choice, bool | str) and type(choice) is type(value) and choice > 0
    }
    return min(distances, key=distances.__getitem__, default=None)


def _distinct(values: Sequence[_Value]) -> tuple[_Value, ...]:
    kept: list[_Value] = []
    for value in values:
        if _index(kept, value) is None:
            kept.append(value)
    return tuple(kept)


def _index(values: Sequence[_Value], value: _Value) -> int | None:
    """Position of a value of the same type, since True == 1 == 1.0 in Python."""
    for index, choice in enumerate(values):
        if type(choice) is type(value) and choice == value:
            return index
    return None
