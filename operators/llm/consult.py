"""How an operator asks a language model, and what it is told about the search.

An operator sees these types alone. Which model answers, what it may cost, whether it is asked over
the network or answered from a record, is decided where the run is put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from archives.llm_call import CallOutcome, Message

if TYPE_CHECKING:
    from operators.operator import Parent

__all__ = ["Answer", "Briefing", "Consult", "Speed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back from one question.

    Attributes:
        outcome: How the call ended; every other field is empty unless it is `OK`.
        text: The reply.
        finish: Why the model stopped; "length" where it was cut off.
        cost_usd: Money that this question cost; 0 where the price is not known.
        log: What went wrong, one line; "" where nothing did.
    """

    outcome: CallOutcome
    text: str = ""
    finish: str = ""
    cost_usd: float = 0.0
    log: str = ""


class Consult(Protocol):
    """Asks the language model that was chosen for one attempt."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens that a prompt may have at most."""
        ...

    async def ask(self, messages: Sequence[Message]) -> Answer:
        """Ask; whatever happens is a value, never an exception. Each call is a new question."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What the device at hand allows for the problem, from the roofline.

    Attributes:
        device: Name of the device.
        bytes: Bytes that must be moved at least.
        flops: Operations of matrix products and convolutions, 2 per multiply-add.
        bound: What sets `least_ms`: "memory", "compute" or "launch".
        least_ms: Shortest time that the device allows, in ms; None: not known for this device.
        ceiling_ms: Time at the rates that were measured on the very device; None: not measured.
    """

    device: str
    bytes: int
    flops: int
    bound: str = ""
    least_ms: float | None = None
    ceiling_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """What the search knows besides the parents; the same at every replay.

    Attributes:
        inspirations: Elites of other cells than the parents', at most five, slow to fast.
        lessons: Sentences distilled from failures of this problem and of its family, the most
            frequent first.
        focus: What this island pays attention to: a key of `operators.llm.focus.FOCUSES`.
        speed: What the device allows; None where nothing is known.
        reference_ms: Time of the reference, in ms; None: not measured yet.
    """

    inspirations: tuple[Parent, ...] = ()
    lessons: tuple[str, ...] = ()
    focus: str = ""
    speed: Speed | None = None
    reference_ms: float | None = None
