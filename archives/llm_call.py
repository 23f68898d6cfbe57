"""A call to a language model: what was sent, what came back, what it cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from archives.attempt import Slot

__all__ = ["CallOutcome", "LlmCall", "Message"]


class CallOutcome(StrEnum):
    """How a call ended. Only `OK` has a text to read."""

    OK = "ok"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    """The prompt has more tokens than the model takes."""
    FILTERED = "filtered"
    """The provider's content filter withheld the reply."""
    EMPTY = "empty"
    """No choice, or a choice without text."""
    MALFORMED = "malformed"
    """The provider's answer could not be read."""
    BUDGET = "budget"
    """Not sent: it could have passed a limit of the run or of the problem."""
    UNAVAILABLE = "unavailable"
    """Not sent: the model failed too often a moment ago."""

    @property
    def was_sent(self) -> bool:
        """Whether anything went to the provider."""
        return self not in (CallOutcome.BUDGET, CallOutcome.UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: What it says.
    """

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmCall:
    """One call, retries of the same question included.

    Attributes:
        slot: The attempt that it was made for.
        number: Number within the attempt, from 0: a continued or corrected reply is a new call.
        operator: Name of the operator that asked.
        model: Name of the model, as litellm knows it.
        messages: What was sent, oldest first.
        parameters: Sampling parameters that were sent; never a key.
        outcome: How it ended.
        text: The reply; "" unless `outcome` is `OK`.
        finish: Why the model stopped, such as "stop" or "length"; "" where unknown.
        log: What went wrong, one line; "" where nothing did.
        prompt_tokens: Tokens sent, as the provider counts them; None: it did not say.
        completion_tokens: Tokens that came back, reasoning included; None: it did not say.
        cost_usd: Money spent, retries included; None: the price of the model is not known.
        latency_s: Seconds from the first try to the answer, waiting for retries included.
        tries: Requests sent.
    """

    slot: Slot
    number: int
    operator: str
    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, object] = field(default_factory=dict)
    outcome: CallOutcome
    text: str = ""
    finish: str = ""
    log: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float = 0.0
    tries: int = 1

    @property
    def prompt_hash(self) -> str:
        """SHA-256 of model, messages and parameters: equal questions have equal hashes."""
        question = {
            "model": self.model,
            "messages": [{"role": one.role, "text": one.text} for one in self.messages],
            "parameters": dict(self.parameters),
        }
        text = json.dumps(question, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()
