"""The operator "splice": crossover of two programs.

Three ways, the first that applies:
1. programs with one space: uniform crossover of their configurations;
2. modules that share parts, top-level functions and classes with equal signatures: a part's text
   is taken over whole, with the top-level names that it needs and its new home lacks;
3. programs whose spaces overlap: the first program takes over the values of shared parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from archives.candidate import Candidate
from archives.configuration import (
    Configuration,
    read_configuration,
    read_space,
    with_configuration,
)
from operators.genetics import Individual, Lattice, make_toolbox
from operators.operator import OperatorContext, Parent, Proposal
from operators.parts import exchange, exchangeable
from operators.settings import CONFIGURATIONS

__all__ = ["SPLICE", "Splice"]

_TRIES_PER_POINT = 16


class Splice:
    """Crosses the configurations or the code of two parents."""

    name = "splice"
    num_parents = (2, 2)
    from_failures = False
    settings = (CONFIGURATIONS,)

    def applies(self, context: OperatorContext) -> bool:
        """Return True: whether two parents have something in common is their matter."""
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose one child of two parents.

        Reasons: "same_configuration" where no new point can come of two programs with one space,
        "no_common_part" where two programs share neither a part nor a parameter, "known" where
        every child of theirs is known already.
        """
        first, second = parents
        if rng.random() < 0.5:
            first, second = second, first
        space = read_space(first.candidate.source)
        if space and space == read_space(second.candidate.source):
            count = CONFIGURATIONS.of(context.settings)
            return _cross_configurations(first, second, count, rng)
        proposal = _cross_parts(first, second, context, rng)
        if proposal.source is None:
            proposal = _take_parameters(first, second, rng) or proposal
        return proposal


SPLICE = Splice()


def _cross_configurations(
    first: Parent, second: Parent, count: int, rng: np.random.Generator
) -> Proposal:
    """Mix the points of two programs with one space; the code is the first parent's."""
    source = first.candidate.source
    lattice = Lattice.of(read_space(source))
    one = lattice.encode(read_configuration(source))
    other = lattice.encode(read_configuration(second.candidate.source))
    if one is None or other is None or one == other:
        return Proposal(source=None, reason="same_configuration")
    seen = {lattice.encode(result.configuration) for result in first.tried} | {one}
    if first.candidate.program_id == second.candidate.program_id:
        seen.add(other)
    toolbox = make_toolbox(lattice, rng)
    points: list[Configuration] = []
    for _ in range(_TRIES_PER_POINT * count):
        for child in toolbox.mate(Individual(one), Individual(other)):
            if tuple(child) not in seen and len(points) < count:
                seen.add(tuple(child))
                points.append(lattice.decode(child))
    if not points:
        return Proposal(source=None, reason="same_configuration")
    return Proposal(
        source=with_configuration(source, points[0]),
        configurations=tuple(points),
        note=f"{len(points)} mixed point{'s' if len(points) != 1 else ''}",
    )


def _cross_parts(
    first: Parent, second: Parent, context: OperatorContext, rng: np.random.Generator
) -> Proposal:
    """Take over one part of the second parent, or several, in random order of preference."""
    home, donor = first.candidate.source, second.candidate.source
    names = exchangeable(home, donor)
    if not names:
        return Proposal(source=None, reason="no_common_part")
    for size in rng.permutation(np.arange(1, len(names) + 1)).tolist():
        taken = sorted(rng.choice(names, size=size, replace=False).tolist())
        child = exchange(home, donor, taken)
        if Candidate.of(context.problem.key, child).id not in context.known:
            return Proposal(source=child, note=f"took over {', '.join(taken)}")
    return Proposal(source=None, reason="known")


def _take_parameters(first: Parent, second: Parent, rng: np.random.Generator) -> Proposal | None:
    """Give the first program the second's values of shared parameters, at least one."""
    source = first.candidate.source
    lattice = Lattice.of(read_space(source))
    start = dict(read_configuration(source))
    offered = read_configuration(second.candidate.source)
    if lattice.encode(start) is None:
        return None
    shared = [
        name
        for name in lattice.names
        if name in offered
        and offered[name] != start[name]
        and lattice.encode({**start, name: offered[name]}) is not None
    ]
    if not shared:
        return None
    taken = [name for name in shared if rng.random() < 0.5] or shared
    child = {**start, **{name: offered[name] for name in taken}}
    if any(result.configuration == child for result in first.tried):
        return Proposal(source=None, reason="known")
    return Proposal(
        source=with_configuration(source, child),
        note="took over " + ", ".join(f"{name}={child[name]!r}" for name in taken),
    )
