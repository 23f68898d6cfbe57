"""Choosing: who makes the next child of an island, from whom, and which model is asked for it.

What is chosen depends on the finished generations and the slot's own random stream alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from archives.attempt import Slot
from evokernel.island import ROLES, Island
from evokernel.population import Population
from evokernel.shares import draw, shares

__all__ = ["Choice", "Wants", "choose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who is to make a child, and from whom.

    Attributes:
        operator: Name of the operator.
        parents: (attempt, candidate id) of each parent.
        model: The language model to be asked; "" where the operator needs none.
    """

    operator: str
    parents: tuple[tuple[Slot, str], ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What an operator needs for a child.

    Attributes:
        least: Parents at least.
        most: Parents at most.
        from_failures: Whether its parents are failed candidates.
        consults: Whether it asks a language model.
    """

    least: int
    most: int
    from_failures: bool = False
    consults: bool = False


def choose(
    population: Population,
    slot: Slot,
    operators: Mapping[str, Wants],
    rng: np.random.Generator,
    without: Set[str] = frozenset(),
) -> Choice | None:
    """Choose an operator by its share, its parents, and the model that it is to ask.

    Args:
        population: The problem's islands, credits and models.
        slot: Where the child is to live.
        operators: What each operator that applies to the problem needs.
        rng: Random stream of the slot.
        without: Models that are not to be asked.

    Returns:
        The choice, or None where no operator has what it needs.
    """
    island = population.islands[slot.island]
    able = {
        name: wants
        for name, wants in operators.items()
        if name not in population.retired and _has_parents(island, wants)
    }
    models = population.ensemble.awake(slot.generation, without)
    if not models and all(wants.consults for wants in able.values()):
        # Where nobody else has anything to do, a resting model is better than none.
        models = population.ensemble.employed(without)
    able = {name: wants for name, wants in able.items() if models or not wants.consults}
    if not able:
        return None
    role = island.role if population.evolves else ROLES[0]
    credit = population.credits_per_s if population.evolves else {}
    odds = shares(able, credit, population.config.operators.floor, role.emphasis)
    name = draw(odds, rng)
    parents = _parents(island, able[name], rng, _greed(population, island))
    model = population.ensemble.choose(models, rng) if able[name].consults else ""
    return Choice(operator=name, parents=parents, model=model)


def _greed(population: Population, island: Island) -> float:
    """The probability that the first parent is the island's best."""
    if not population.evolves:
        return 0.0
    return 1.0 if population.config.archive.pool else island.role.greed


def _has_parents(island: Island, wants: Wants) -> bool:
    return wants.least <= (len(island.failures) if wants.from_failures else len(island.grid))


def _parents(
    island: Island, wants: Wants, rng: np.random.Generator, greed: float
) -> tuple[tuple[Slot, str], ...]:
    """Draw as many parents as an operator wants, without replacement."""
    if wants.most == 0:
        return ()
    supply = len(island.failures) if wants.from_failures else len(island.grid)
    count = int(rng.integers(wants.least, min(wants.most, supply) + 1))
    if wants.from_failures:
        failures: Sequence[tuple[Slot, str]] = list(island.failures)
        picks = rng.choice(len(failures), size=count, replace=False).tolist()
        return tuple(failures[pick] for pick in picks)
    elites = island.pick(rng, count, greed) if count else ()
    return tuple((elite.slot, elite.candidate) for elite in elites)
