"""The ensemble: which of several language models is asked, and which ones rest for a while.

A model's credit is the logarithmic gain of its children over what its calls cost: in dollars where
every model that was asked has a price, else in seconds. A model whose calls all fail for reasons of
its provider rests, twice as long each time. Everything here is a pure function of finished
generations, so that a replay chooses alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from archives.attempt import Attempt
from archives.llm_call import CallOutcome
from evokernel.shares import LEAST_COST_S, blend, draw, shares

__all__ = ["Ensemble", "failed_models"]

_BUDGET = f"llm_{CallOutcome.BUDGET}"
_PROVIDER_AT_FAULT = frozenset(
    f"llm_{outcome}"
    for outcome in (
        CallOutcome.TIMEOUT,
        CallOutcome.RATE_LIMITED,
        CallOutcome.SERVER_ERROR,
        CallOutcome.CONNECTION,
        CallOutcome.AUTHENTICATION,
        CallOutcome.BAD_REQUEST,
        CallOutcome.EMPTY,
        CallOutcome.MALFORMED,
        CallOutcome.UNAVAILABLE,
    )
)
_LONGEST_REST = 8
"""Generations that a model rests at most."""

_LEAST_COST_USD = 1e-4
"""Dollars below which no less is counted: a gain for next to nothing is no infinite credit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """How long a model rests.

    Attributes:
        until: Last generation in which it is not asked.
        length: Generations that it rests.
    """

    until: int
    length: int


class Ensemble:
    """The models of one problem's search: their credits, and who rests."""

    def __init__(self, models: Sequence[str], *, floor: float, memory: float) -> None:
        """Start without credits.

        Args:
            models: Names of the models; none: nobody can be asked.
            floor: Least share of each model.
            memory: Part of its credit that a model keeps from generation to generation, 0 to 1.
        """
        self._models = tuple(models)
        self._floor = floor
        self._memory = memory
        self._per_usd: dict[str, float] = {}
        self._per_s: dict[str, float] = {}
        self._unpriced: set[str] = set()
        self._rests: dict[str, _Rest] = {}
        self.is_retired = False

    def awake(self, generation: int, without: Set[str] = frozenset()) -> tuple[str, ...]:
        """Return the models that may be asked in a generation.

        Args:
            generation: The generation.
            without: Models that are not to be asked in what is left of it.
        """
        return tuple(
            model
            for model in self.employed(without)
            if model not in self._rests or self._rests[model].until < generation
        )

    def employed(self, without: Set[str] = frozenset()) -> tuple[str, ...]:
        """Return the models that may be asked where nobody else has anything to propose."""
        return () if self.is_retired else tuple(m for m in self._models if m not in without)

    def shares(self, models: Sequence[str]) -> dict[str, float]:
        """Return the probability of each of some models, at least one; they sum to 1."""
        credit = self._per_s if self._unpriced else self._per_usd
        return shares(models, credit, self._floor)

    def choose(self, models: Sequence[str], rng: np.random.Generator) -> str:
        """Draw one of some models, at least one, by its share."""
        return draw(self.shares(models), rng)

    def close(
        self, generation: int, attempts: Sequence[Attempt], gains: Mapping[str, float]
    ) -> None:
        """Take note of a finished generation.

        Args:
            generation: From 0; generation 0 gives no credit, since what it gains is measured
                against the reference.
            attempts: All of its attempts.
            gains: What the children of each model brought to the archive.
        """
        asked: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            if attempt.reason == _BUDGET:
                self.is_retired = True
            elif attempt.model:
                asked.setdefault(attempt.model, []).append(attempt)
        failed = failed_models(attempts)
        for model, own in asked.items():
            if model in failed:
                before = self._rests.get(model)
                length = min(2 * before.length, _LONGEST_REST) if before else 1
                self._rests[model] = _Rest(until=generation + length, length=length)
                continue
            self._rests.pop(model, None)
            if generation > 0:
                self._credit(model, own, gains.get(model, 0.0))

    def reinstate(self) -> None:
        """Let models be asked again where a budget had ended that."""
        self.is_retired = False

    def _credit(self, model: str, attempts: Sequence[Attempt], gain: float) -> None:
        cost_usd = sum(attempt.cost_usd for attempt in attempts)
        cost_s = sum(attempt.cost_s for attempt in attempts)
        if cost_usd == 0:
            self._unpriced.add(model)
        for credits, cost in (
            (self._per_usd, max(cost_usd, _LEAST_COST_USD)),
            (self._per_s, max(cost_s, LEAST_COST_S)),
        ):
            credits[model] = blend(credits.get(model), gain / cost, self._memory)


def failed_models(attempts: Sequence[Attempt]) -> frozenset[str]:
    """Return the models all of whose attempts failed for reasons of their provider.

    Attempts that a budget refused say nothing about a model.
    """
    asked = {a.model for a in attempts if a.model and a.reason != _BUDGET}
    served = {
        a.model for a in attempts if a.reason != _BUDGET and a.reason not in _PROVIDER_AT_FAULT
    }
    return frozenset(asked - served)
