"""Kin: what the search on one problem may learn from those on others of its family.

Each problem keeps the winning configurations of its finished generations (`Feats`). Another problem
may see them, but not as soon as they are there: what it sees must depend on its generation alone,
never on who happened to be faster, or no run could be repeated or resumed to the same end. So it
sees

- of problems that advance together with it, what they had found `LAG` generations ago;
- of problems of earlier blocks (`search.together`), what they had found at the same generation,

and its turn comes only once they are that far (`evokernel.turns`). Both rules hold as well where a
finished run is given more generations. What another run found (`Heirloom`) is always seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from archives.configuration import Configuration
from evokernel.config import RunConfig
from evokernel.heirlooms import Heirloom
from evokernel.likeness import Form, distance
from evokernel.search import ProblemSearch
from operators.operator import Operator
from operators.relatives import TRANSFER, Relative
from problems.graph import OperatorGraph

__all__ = ["LAG", "IsDue", "Kin", "transfers", "visible_until", "who_is_due"]

LAG = 2
"""Generations that a problem is behind in what it sees of those that advance with it."""

IsDue = Callable[[ProblemSearch, int, Sequence[ProblemSearch]], bool]
"""Whether a problem can begin a generation, from all that are still under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """The problems of a run and of the one that it started from, by family.

    Attributes:
        families: The run's searches by family.
        together: Problems that advance together; 0: all.
        graph_of: Returns the operator graph of a problem; None where there is none.
        heirlooms: What another run found.
        forms: Forms of problems looked up so far, by key.
    """

    families: Mapping[str, Sequence[ProblemSearch]]
    together: int
    graph_of: Callable[[str], OperatorGraph | None]
    heirlooms: Sequence[Heirloom] = ()
    forms: dict[str, Form | None] = field(default_factory=dict)

    def relatives(self, search: ProblemSearch, generation: int) -> tuple[Relative, ...]:
        """Return what was best for other problems of the family.

        All second bests come after all bests, since those of one problem are mostly alike; among
        bests, and among second bests, the nearest problem comes first.

        Args:
            search: The problem's search.
            generation: The generation that it begins.
        """
        own = self._form(search)
        found: list[tuple[int, float, Relative]] = []

        def offer(label: str, form: Form | None, configurations: Sequence[Configuration]) -> None:
            apart = distance(own, form)
            ranks = Counter[frozenset[str]]()
            for one in configurations:
                rank = ranks[frozenset(one)]
                ranks[frozenset(one)] += 1
                found.append((rank, apart, Relative(problem=label, configuration=one)))

        for other in self.families.get(search.problem.family, ()):
            until = visible_until(search.index, generation, other.index, self.together)
            best = other.feats.best(until) if other is not search else []
            if best:
                offer(other.problem.label, self._form(other), best)
        for heirloom in self.heirlooms:
            if heirloom.family == search.problem.family:
                offer(heirloom.problem, heirloom.form, heirloom.configurations)
        found.sort(key=lambda one: one[:2])  # Stable: of equals, in the order of the run.
        return tuple(relative for _, _, relative in found)

    def _form(self, search: ProblemSearch) -> Form | None:
        """The form of a problem: from its graph in the store, where its turn puts it."""
        key = search.problem.key
        if self.forms.get(key) is None:
            graph = search.graph or self.graph_of(key)
            self.forms[key] = None if graph is None else Form.of(graph)
        return self.forms[key]


def visible_until(index: int, generation: int, other: int, together: int) -> int:
    """Return the last generation of another problem that one may see; negative: none.

    Args:
        index: The problem's place in the run.
        generation: Its generation.
        other: The other problem's place.
        together: Problems that advance together; 0: all.
    """
    size = together or max(index, other) + 1
    own, others = index // size, other // size
    if others > own:
        return -1
    return generation if others < own else generation - LAG


def transfers(config: RunConfig, operators: Mapping[str, Operator]) -> bool:
    """Tell whether anything learned on one problem is tried on another one."""
    if config.search.mode != "evolution":
        return False
    return any(
        TRANSFER in getattr(operator, "settings", ())
        and TRANSFER.of(config.operators.settings.get(name, {}))
        for name, operator in operators.items()
    )


def who_is_due(config: RunConfig, operators: Mapping[str, Operator]) -> IsDue:
    """Return what tells whether all that a problem may see of others is there.

    Args:
        config: The run's configuration.
        operators: By name.

    Returns:
        A function of a problem's search, the generation that it is to begin, and all searches that
        are still under way.
    """
    if not transfers(config, operators):
        return lambda search, generation, under_way: True
    together, last = config.search.together, config.search.generations

    def is_due(search: ProblemSearch, generation: int, under_way: Sequence[ProblemSearch]) -> bool:
        return all(
            other.reached
            >= min(last, visible_until(search.index, generation, other.index, together))
            for other in under_way
            if other is not search and other.problem.family == search.problem.family
        )

    return is_due
