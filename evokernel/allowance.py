"""What language models may still cost: limits of the run and of each problem.

A call is paid for at its upper estimate before it is sent and settled when it has ended, so that
calls under way together cannot pass a limit that none of them would pass alone. What retries cost
is known only afterwards: it counts, and the calls after that one feel it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from archives.records import CallSummary
from evokernel.config import LlmConfig

__all__ = ["Allowance", "Bill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What calls cost.

    Attributes:
        calls: Requests sent.
        tokens: Tokens, sent and received.
        cost_usd: Dollars; what has no known price is left out.
        unpriced: Questions whose price is not known.
    """

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: Bill) -> Bill:
        return Bill(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            unpriced=self.unpriced + other.unpriced,
        )

    def __sub__(self, other: Bill) -> Bill:
        return Bill(
            calls=self.calls - other.calls,
            tokens=self.tokens - other.tokens,
            cost_usd=max(0.0, self.cost_usd - other.cost_usd),
            unpriced=self.unpriced - other.unpriced,
        )


_Limit = tuple[str, float | None]
"""A setting's name and value: dollars, calls and tokens, in this order."""


@dataclass(slots=True)
class _Account:
    spent: Bill = field(default_factory=Bill)
    reserved: Bill = field(default_factory=Bill)


class Allowance:
    """The limits, and what was spent of them."""

    def __init__(self, config: LlmConfig, calls: Iterable[CallSummary] = ()) -> None:
        """Start from what was spent.

        Args:
            config: The limits.
            calls: Calls of earlier sittings.
        """
        self._config = config
        self._run = _Account()
        self._problems: dict[str, _Account] = {}
        for call in calls:
            bill = Bill(
                calls=call.tries,
                tokens=(call.prompt_tokens or 0) + (call.completion_tokens or 0),
                cost_usd=call.cost_usd or 0.0,
                unpriced=int(call.tries > 0 and call.cost_usd is None),
            )
            for account in self._accounts(call.slot.problem):
                account.spent += bill

    @property
    def spent(self) -> Bill:
        """What the calls of the run that have ended cost, those of earlier sittings included."""
        return self._run.spent

    def refusal(self, problem: str, estimate: Bill) -> str:
        """Tell which limit a call could pass; "" where it may be sent.

        Args:
            problem: Key of the problem that it is for.
            estimate: What it costs at most.
        """
        for account, limits in self._scopes(problem):
            used = account.spent + account.reserved
            for name, limit, taken, wanted in _measures(limits, used, estimate):
                if limit is not None and taken + wanted > limit:
                    unit = "$" if name.endswith("usd") else ""
                    return (
                        f"llm.{name} = {unit}{limit:,}: {unit}{taken:,.6g} spent or under way, and "
                        f"this call could take {unit}{wanted:,.6g}"
                    )
        return ""

    def reserve(self, problem: str, estimate: Bill) -> None:
        """Set aside what a call costs at most."""
        for account in self._accounts(problem):
            account.reserved += estimate

    def settle(self, problem: str, estimate: Bill, bill: Bill) -> None:
        """Put what a call has cost in place of what was set aside for it."""
        for account in self._accounts(problem):
            account.reserved -= estimate
            account.spent += bill

    def _accounts(self, problem: str) -> tuple[_Account, _Account]:
        """Those of the run and of a problem."""
        return self._run, self._problems.setdefault(problem, _Account())

    def _scopes(self, problem: str) -> tuple[tuple[_Account, tuple[_Limit, ...]], ...]:
        config = self._config
        run, own = self._accounts(problem)
        return (
            (
                run,
                (
                    ("max_cost_usd", config.max_cost_usd),
                    ("max_calls", config.max_calls),
                    ("max_tokens", config.max_tokens),
                ),
            ),
            (
                own,
                (
                    ("problem_cost_usd", config.problem_cost_usd),
                    ("problem_calls", config.problem_calls),
                    ("problem_tokens", config.problem_tokens),
                ),
            ),
        )


def _measures(
    limits: tuple[_Limit, ...], used: Bill, estimate: Bill
) -> Iterator[tuple[str, float | None, float, float]]:
    """Each limit with what is used of it and what is wanted."""
    pairs = (
        (used.cost_usd, estimate.cost_usd),
        (used.calls, estimate.calls),
        (used.tokens, estimate.tokens),
    )
    for (name, limit), (taken, wanted) in zip(limits, pairs, strict=True):
        yield name, limit, taken, wanted
