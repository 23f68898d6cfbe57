"""Feats: the configurations that won in one problem's finished generations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from archives.configuration import Configuration
from archives.evaluation import Status
from evokernel.register import Child

__all__ = ["Feats"]

_PER_PARAMETERS = 2
"""Configurations that are kept for one set of parameters."""

_Ranking = dict[tuple[str, ...], tuple[tuple[float, Configuration], ...]]
"""The best (objective, configuration) pairs for each set of parameters, the best first."""


@dataclass(slots=True)
class Feats:
    """The winning configurations, as they stood at the end of each finished generation."""

    _standings: list[_Ranking] = field(default_factory=list)

    def close(self, generation: int, children: Sequence[Child]) -> None:
        """Keep the winners of a generation.

        Args:
            generation: From 0, one more than that of the call before.
            children: Its children in slot order.
        """
        assert generation == len(self._standings), "generations are closed in their order"
        ranking = dict(self._standings[-1]) if self._standings else {}
        for child in children:
            verdict = child.evaluation
            if verdict is None or verdict.status is not Status.OK or not verdict.configuration:
                continue
            assert verdict.objective_speedup is not None, "OK has a speedup"
            names = tuple(sorted(verdict.configuration))
            feat = (math.log(verdict.objective_speedup), verdict.configuration)
            ranking[names] = _with(ranking.get(names, ()), feat)
        self._standings.append(ranking)

    def best(self, until: int) -> list[Configuration]:
        """Return the best for each set of parameters, the best first.

        Args:
            until: The last generation that counts; negative: none does.
        """
        if until < 0 or not self._standings:
            return []
        ranking = self._standings[min(until, len(self._standings) - 1)]
        return [configuration for feats in ranking.values() for _, configuration in feats]


def _with(
    feats: tuple[tuple[float, Configuration], ...], feat: tuple[float, Configuration]
) -> tuple[tuple[float, Configuration], ...]:
    """Some feats with another one: of one configuration the better, and of all the best few."""
    others = [other for other in feats if other[1] != feat[1]]
    same = [other for other in feats if other[1] == feat[1]]
    best = max([*same, feat], key=lambda one: one[0])
    return tuple(sorted([*others, best], key=lambda one: -one[0])[:_PER_PARAMETERS])
