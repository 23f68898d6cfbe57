"""What a language model is told of the search, besides the parents of the child that it is to make.

Inspirations are elites of other cells; lessons come from failures of this problem and of the run's
other problems of its family; the roofline says what the device allows. All of it is taken from
finished generations, once for each generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate

from archives.attempt import Slot
from archives.evaluation import DeviceFingerprint, Evaluation
from archives.grid import Cell, Elite
from archives.rates import Rates
from evaluator.referee.ceiling import ceiling_ms
from evaluator.referee.hardware import find_device
from evaluator.referee.roofline import light, work_of
from evaluator.referee.source_domains import known_domains
from evokernel.island import Island
from evokernel.search import ProblemSearch
from operators.llm.consult import Briefing, Speed
from operators.llm.focus import FOCUSES
from operators.llm.lessons import Setback, lessons_of
from operators.operator import Parent
from problems.errors import ConfigError

__all__ = ["Knowledge", "speed_of"]

_MOST_INSPIRATIONS = 5
_MOST_CHARACTERS = 16_000
"""Of all inspirations together, about 6,000 tokens: more would cost more than it teaches."""

Recall = Callable[[ProblemSearch, Slot, str], Parent]
"""Brings an elite back as a parent: the search, its attempt and its candidate's id."""


class Knowledge:
    """What one problem's search knows at the beginning of a generation."""

    def __init__(
        self,
        *,
        search: ProblemSearch,
        relatives: Sequence[ProblemSearch],
        device: DeviceFingerprint,
        recall: Recall,
        rates: Rates | None = None,
    ) -> None:
        """Look nothing up yet.

        Args:
            search: The problem's search.
            relatives: Searches of the run's other problems of its family.
            device: Where it is measured.
            recall: Brings elites back.
            rates: What the device was measured to reach; None: not known.
        """
        self._search = search
        self._relatives = relatives
        self._device = device
        self._recall = recall
        self._rates = rates
        self._recalled: dict[Slot, Parent] = {}
        self._candidates: dict[int, list[Elite]] = {}

    def brief_for(self, island: Island) -> Callable[[Sequence[Parent]], Briefing]:
        """Return what tells an operator on an island what is known besides its parents."""
        names = list(FOCUSES)
        focus = names[(island.index + island.changes) % len(names)]

        def brief(parents: Sequence[Parent]) -> Briefing:
            return replace(
                self._common, inspirations=self._inspirations(island, parents), focus=focus
            )

        return brief

    @cached_property
    def _common(self) -> Briefing:
        """What holds for all islands."""
        return Briefing(
            lessons=lessons_of(self._setbacks()),
            speed=speed_of(self._search, self._device, self._rates),
            reference_ms=self._reference_ms(),
        )

    def _inspirations(self, island: Island, parents: Sequence[Parent]) -> tuple[Parent, ...]:
        """Elites of other cells than the parents', those of the island first; slow to fast."""
        elites = self._elites(island)
        taken = {parent.candidate.id for parent in parents}
        cells: set[Cell] = {elite.cell for elite in elites if elite.candidate in taken}
        chosen: list[Elite] = []
        for elite in elites:
            if len(chosen) == _MOST_INSPIRATIONS:
                break
            if elite.cell not in cells and elite.candidate not in taken:
                cells.add(elite.cell)
                taken.add(elite.candidate)
                chosen.append(elite)
        chosen.sort(key=lambda elite: (-elite.objective, elite.slot))
        told = [self._parent(elite) for elite in chosen]
        sizes = accumulate(len(parent.candidate.source) for parent in told)
        # The fastest one is told of in any case; a prompt that is too long loses it later.
        fitting = max(1, sum(size <= _MOST_CHARACTERS for size in sizes))
        return tuple(reversed(told[:fitting]))

    def _elites(self, island: Island) -> list[Elite]:
        """Elites of an island, then those of the archive, the fastest first."""
        if island.index not in self._candidates:
            population = self._search.population
            everyone = [*_ranked(island.grid.elites()), *_ranked(population.archive.elites())]
            # What is no parent teaches nothing either.
            self._candidates[island.index] = [
                elite
                for elite in everyone
                if population.breeds(elite.candidate, self._evaluation(elite.candidate))
            ]
        return self._candidates[island.index]

    def _evaluation(self, candidate: str) -> Evaluation:
        return self._search.register.evaluation(candidate)

    def _parent(self, elite: Elite) -> Parent:
        if elite.slot not in self._recalled:
            self._recalled[elite.slot] = self._recall(self._search, elite.slot, elite.candidate)
        return self._recalled[elite.slot]

    def _setbacks(self) -> Iterator[Setback]:
        yield from self._search.setbacks.all()
        for relative in self._relatives:
            for setback in relative.setbacks.all():
                yield replace(setback, family=self._search.problem.family)

    def _reference_ms(self) -> float | None:
        best = self._search.population.archive.best
        return None if best is None else self._evaluation(best.candidate).reference_ms


def speed_of(
    search: ProblemSearch, device: DeviceFingerprint, rates: Rates | None = None
) -> Speed | None:
    """Return what a device allows for a problem; None where nothing is known of its work.

    Args:
        search: The search on the problem.
        device: Where it is measured.
        rates: What that was measured to reach; None: not known.
    """
    if search.graph is None:
        return None
    work = work_of(search.graph, known_domains(search.problem, search.graph))
    plain = Speed(device=device.name, bytes=work.bytes, flops=work.flops)
    try:
        row = find_device(device.name)
    except ConfigError:
        return plain  # A device without a row in the table; most CPUs.
    precision = search.problem.precision
    found = light(work, row, precision)
    ceiling = None if rates is None else ceiling_ms(work, row, rates, precision)
    return replace(plain, bound=found.bound, least_ms=found.sol_ms, ceiling_ms=ceiling)


def _ranked(elites: Sequence[Elite]) -> list[Elite]:
    return sorted(elites, key=lambda elite: (-elite.objective, elite.slot))
