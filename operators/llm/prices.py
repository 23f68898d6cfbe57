"""What a model costs: litellm's own price list, or what the configuration says.

A price that nobody knows is None, never zero: a limit on money cannot be kept for such a model,
and whoever sets one is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from archives.llm_call import Message
from operators.llm.loading import load_litellm

__all__ = ["Price", "Prices", "prompt_tokens_at_most"]

BYTES_PER_TOKEN = 1.5
"""Prose has 4 and code mostly 3; dense arithmetic has fewer than 2, and is not to be passed."""
TOKENS_PER_MESSAGE = 8
"""Tokens around a message: its role, and where it begins and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model.

    Attributes:
        input_usd: Of a token that is sent, in USD.
        output_usd: Of a token that comes back, in USD.
    """

    input_usd: float
    output_usd: float

    def cost_usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of a call, in USD."""
        return prompt_tokens * self.input_usd + completion_tokens * self.output_usd


class Prices:
    """Prices of models, each looked up once."""

    def __init__(self, configured: Price | None = None) -> None:
        """Start with no price looked up.

        Args:
            configured: Price of the models that litellm has none of; None: theirs is not known.
        """
        self._configured = configured
        self._known: dict[str, Price | None] = {}

    @classmethod
    def per_million(cls, input_usd: float | None, output_usd: float | None) -> Prices:
        """Take configured prices, in USD per million tokens; one alone leaves the other free."""
        if input_usd is None and output_usd is None:
            return cls()
        return cls(Price(input_usd=(input_usd or 0) / 1e6, output_usd=(output_usd or 0) / 1e6))

    def of(self, model: str) -> Price | None:
        """Return the price of a model; None where it is not known."""
        if model not in self._known:
            self._known[model] = _listed(model) or self._configured
        return self._known[model]

    def is_listed(self, model: str) -> bool:
        """Tell whether the price is litellm's: then it knows discounts for cached tokens too."""
        price = self.of(model)
        return price is not None and price is not self._configured

    def most_usd(self, model: str, prompt_tokens: int, max_output_tokens: int) -> float | None:
        """Return what a call may cost at most, in USD; None where the price is not known."""
        price = self.of(model)
        return None if price is None else price.cost_usd(prompt_tokens, max_output_tokens)


def prompt_tokens_at_most(messages: Sequence[Message]) -> int:
    """Estimate the tokens of a conversation from above."""
    num_bytes = sum(len(message.text.encode("utf-8", "replace")) for message in messages)
    return math.ceil(num_bytes / BYTES_PER_TOKEN) + TOKENS_PER_MESSAGE * len(messages)


def _listed(model: str) -> Price | None:
    """The price in litellm's list."""
    litellm = load_litellm()
    try:
        name, provider, _, _ = litellm.get_llm_provider(model=model)
    except litellm.exceptions.BadRequestError:
        return None
    for key in (model, f"{provider}/{name}", name):
        entry = litellm.model_cost.get(key, {})
        # The name alone may be listed for another provider; "bedrock_converse" is Bedrock's.
        if not str(entry.get("litellm_provider", "")).startswith(provider):
            continue
        sent, answered = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
        if sent is not None and answered is not None:
            return Price(input_usd=float(sent), output_usd=float(answered))
    return None
