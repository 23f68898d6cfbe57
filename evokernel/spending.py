"""What language models cost a run and what they brought to it, by model and operator.

Read from the store alone, so that it works during a run, after it, and on another machine. What
a provider did not say, or has no known price, is unknown: it is counted apart, never as zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from archives.attempt import Attempt, Slot
from archives.grid import Cell
from archives.llm_call import CallOutcome
from archives.records import MIGRATE, CallSummary, Insertion
from archives.store import Store

__all__ = ["Spending", "SpendingLine", "read_spending", "spending_to_json"]

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLine:
    """What one model cost and brought when one operator asked it.

    Attributes:
        model: Name of the model; "" in a total.
        operator: Name of the operator; "" in a total.
        calls: Calls, those that were not sent included.
        sent: Calls that went to a provider.
        failures: Calls that brought no text, by outcome, the most frequent first.
        prompt_tokens: Tokens sent, as far as known; None: nothing is known of any.
        completion_tokens: Tokens that came back, as far as known; None: nothing is known of any.
        uncounted: Replies whose tokens the provider did not count in full.
        cost_usd: Money spent, as far as known; None: nothing is known of any.
        unpriced: Calls that were sent and whose price is not known.
        latency_s: Mean time of the calls that were sent, in seconds; None: none was.
        proposals: Attempts, those without a program included.
        candidates: Attempts with a program.
        repeated: Of those, programs that the run knew already.
        correct: New programs that are correct by their latest measurement.
        accepted: Children that entered a grid.
        gain: Sum of the logarithmic improvements of the archives, as the report counts it.
        best_speedup: Best speedup of a new program; None: none is correct.
    """

    model: str
    operator: str
    calls: int
    sent: int
    failures: Mapping[str, int]
    prompt_tokens: int | None
    completion_tokens: int | None
    uncounted: int
    cost_usd: float | None
    unpriced: int
    latency_s: float | None
    proposals: int
    candidates: int
    repeated: int
    correct: int
    accepted: int
    gain: float
    best_speedup: float | None

    @property
    def failed(self) -> int:
        """Calls that brought no text."""
        return sum(self.failures.values())

    @property
    def failed_share(self) -> float | None:
        """Share of the calls that brought no text, 0 to 1; None: there were none."""
        return self.failed / self.calls if self.calls else None

    @property
    def repeated_share(self) -> float | None:
        """Share of the candidates that were known already; None: there are none."""
        return self.repeated / self.candidates if self.candidates else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Everything that is told of a run's language models.

    Attributes:
        run: Name of the run.
        lines: One for each pair of model and operator, in their order.
        total: All of them together.
    """

    run: str
    lines: tuple[SpendingLine, ...]
    total: SpendingLine


@dataclass(frozen=True, slots=True, kw_only=True)
class _Yield:
    """What came of one attempt; `speedup` is None unless it is a new and correct program."""

    attempt: Attempt
    accepted: bool
    gain: float
    speedup: float | None


def read_spending(store: Store, problem_key: str | None = None) -> Spending:
    """Read what a run spent on language models from its store.

    Args:
        store: An open run.
        problem_key: Calls for this problem alone; None: all.

    Raises:
        StoreError: The store cannot be read, or has no such problem.
    """
    calls = store.calls(problem_key)
    keys = [problem.key for problem in store.problems()] if problem_key is None else [problem_key]
    yields = [each for key in keys for each in _yields(store, key)]
    pairs = {(call.model, call.operator) for call in calls}
    pairs |= {(each.attempt.model, each.attempt.operator) for each in yields}
    lines = tuple(
        _line(
            pair,
            [call for call in calls if (call.model, call.operator) == pair],
            [each for each in yields if (each.attempt.model, each.attempt.operator) == pair],
        )
        for pair in sorted(pairs)
    )
    return Spending(run=store.run().name, lines=lines, total=_line(("", ""), calls, yields))


def spending_to_json(spending: Spending) -> dict[str, Any]:
    """Return the spending as JSON-able data."""
    total = _line_json(spending.total)
    return {
        "run": spending.run,
        "lines": [_line_json(line) for line in spending.lines],
        "total": {name: total[name] for name in total if name not in ("model", "operator")},
    }


def _line_json(line: SpendingLine) -> dict[str, Any]:
    return {
        **asdict(line),
        "failed": line.failed,
        "failed_share": line.failed_share,
        "repeated_share": line.repeated_share,
    }


def _line(
    pair: tuple[str, str], calls: Sequence[CallSummary], yields: Sequence[_Yield]
) -> SpendingLine:
    sent = [call for call in calls if call.outcome.was_sent]
    replies = [call for call in calls if call.outcome is CallOutcome.OK]
    failures = Counter(call.outcome.value for call in calls if call.outcome is not CallOutcome.OK)
    candidates = [each for each in yields if each.attempt.candidate is not None]
    speedups = [each.speedup for each in yields if each.speedup is not None]
    return SpendingLine(
        model=pair[0],
        operator=pair[1],
        calls=len(calls),
        sent=len(sent),
        failures=dict(sorted(failures.items(), key=lambda item: (-item[1], item[0]))),
        prompt_tokens=_known_sum(call.prompt_tokens for call in sent),
        completion_tokens=_known_sum(call.completion_tokens for call in sent),
        uncounted=sum(None in (call.prompt_tokens, call.completion_tokens) for call in replies),
        cost_usd=_known_sum(call.cost_usd for call in sent),
        unpriced=sum(call.cost_usd is None for call in sent),
        latency_s=sum(call.latency_s for call in sent) / len(sent) if sent else None,
        proposals=len(yields),
        candidates=len(candidates),
        repeated=sum(each.attempt.duplicate_of is not None for each in candidates),
        correct=len(speedups),
        accepted=sum(each.accepted for each in yields),
        gain=sum(each.gain for each in yields),
        best_speedup=max(speedups, default=None),
    )


def _known_sum(values: Iterable[_Number | None]) -> _Number | None:
    """The sum of what is known; 0 where there is nothing to know, None where nothing is known."""
    every = list(values)
    known = [value for value in every if value is not None]
    return sum(known) if known or not every else None


def _yields(store: Store, problem_key: str) -> list[_Yield]:
    """What came of each attempt at a problem that asked a model, in slot order."""
    attempts = store.attempts(problem_key)
    asked = [attempt for attempt in attempts if attempt.model]
    if not asked:
        return []
    migrants = {attempt.slot for attempt in attempts if attempt.operator == MIGRATE}
    insertions = [each for each in store.insertions(problem_key) if each.elite.slot not in migrants]
    accepted = {each.elite.slot for each in insertions if each.addition.status}
    gains = _gains(insertions)
    speedups = store.speedups(problem_key)
    return [
        _Yield(
            attempt=attempt,
            accepted=attempt.slot in accepted,
            gain=gains.get(attempt.slot, 0.0),
            speedup=(
                speedups.get(attempt.result)
                if attempt.result is not None and attempt.duplicate_of is None
                else None
            ),
        )
        for attempt in asked
    ]


def _gains(insertions: Iterable[Insertion]) -> dict[Slot, float]:
    """What each child brought to the archive over all islands, by the rule that credits follow.

    Args:
        insertions: In slot order, migrants left out: they bring nothing new.
    """
    best: dict[Cell, float] = {}
    gains: dict[Slot, float] = {}
    for insertion in insertions:
        elite = insertion.elite
        # An empty cell counts as held by the reference.
        before = best.get(elite.cell, 0.0)
        gains[elite.slot] = max(elite.objective - before, 0.0)
        best[elite.cell] = max(elite.objective, before)
    return gains
