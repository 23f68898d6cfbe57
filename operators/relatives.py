"""Relatives: what worked for programs with the same parameters on other problems.

A sketch writes one program for many problems and shapes, and its best configurations there are
better starts than random ones. They are starts alone: each is measured like any other point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archives.configuration import Configuration
from operators.genetics import Lattice
from operators.settings import Setting

__all__ = ["TRANSFER", "Relative", "points_of_relatives"]

TRANSFER = Setting(name="transfer", default=1, least=0, most=1)
"""Whether configurations that were best for related problems are tried: 1 or 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A configuration that was the best of a program on another problem.

    Attributes:
        problem: Label of that problem.
        configuration: The point; programs with the same parameters may take it over.
    """

    problem: str
    configuration: Configuration


def points_of_relatives(
    lattice: Lattice, relatives: Sequence[Relative], start: Configuration, count: int
) -> tuple[tuple[int, ...], ...]:
    """Return the points of a space that relatives' configurations stand for.

    Args:
        lattice: The space.
        relatives: In the order in which they are offered; those with other parameters are passed
            over.
        start: A point of the space; it stands in where a relative's choice has no like here.
        count: Points wanted at most.

    Returns:
        Distinct points in the order of the relatives.
    """
    names = set(lattice.names)
    alike = (
        lattice.nearest(relative.configuration, start)
        for relative in relatives
        if set(relative.configuration) == names
    )
    return tuple(dict.fromkeys(alike))[:count]
