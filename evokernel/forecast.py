"""A forecast of what language models will be asked and what that may cost, before a run starts."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.config import RunConfig
from evokernel.models import LLM_OPERATORS, prices_of

__all__ = ["Forecast", "forecast"]

_PROMPT_TOKENS = 6000
"""Tokens of a usual prompt: a problem, its graph, a parent of 6 KB, two inspirations."""
_REPLY_TOKENS = 2500
"""Tokens of a usual reply: a program of 6 KB and a few sentences."""
_CALLS_PER_CHILD = 1.3
"""Questions for each child: some replies are corrected, continued or asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What will be asked.

    Attributes:
        calls: Calls, about, where all operators get the same share.
        tokens: Tokens sent and received, about.
        cost_usd: Dollars, about; None: the price of a model is not known.
        most_calls: Calls where all children come from models.
        most_cost_usd: Dollars for those at the longest prompts and replies; None: not known.
    """

    calls: int
    tokens: int
    cost_usd: float | None
    most_calls: int
    most_cost_usd: float | None


def forecast(config: RunConfig, num_attempts: int, num_operators: int) -> Forecast:
    """Return a forecast.

    Args:
        config: The run's configuration, with at least one model.
        num_attempts: Proposals of the run at most.
        num_operators: Operators that share them, those that ask models included.
    """
    llm = config.llm
    asking = sum(name.startswith("llm.") for name in config.operators.use) or len(LLM_OPERATORS)
    share = min(1.0, asking / max(1, num_operators))
    most = num_attempts if llm.max_calls is None else min(num_attempts, llm.max_calls)
    calls = min(round(share * num_attempts * _CALLS_PER_CHILD), most)
    prices = [prices_of(llm).of(model) for model in llm.models]
    known = [price for price in prices if price is not None]
    cost_usd, most_usd = None, None
    if len(known) == len(prices):
        usual = sum(price.cost_usd(_PROMPT_TOKENS, _REPLY_TOKENS) for price in known)
        cost_usd = calls * usual / len(known)
        dearest = max(
            price.cost_usd(llm.max_prompt_tokens, llm.max_output_tokens) for price in known
        )
        most_usd = most * dearest
        if llm.max_cost_usd is not None:
            cost_usd, most_usd = min(cost_usd, llm.max_cost_usd), min(most_usd, llm.max_cost_usd)
    return Forecast(
        calls=calls,
        tokens=calls * (_PROMPT_TOKENS + _REPLY_TOKENS),
        cost_usd=cost_usd,
        most_calls=most,
        most_cost_usd=most_usd,
    )
