"""A language model that answers from a list, in place of the one that the engine chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from archives.llm_call import CallOutcome, Message
from operators.llm.consult import Answer


def says(text: str, finish: str = "stop") -> Answer:
    return Answer(outcome=CallOutcome.OK, text=text, finish=finish, cost_usd=0.25)


def fails(outcome: CallOutcome, log: str = "") -> Answer:
    return Answer(outcome=outcome, log=log, cost_usd=0.125 if outcome.was_sent else 0.0)


@dataclass(slots=True)
class ScriptedConsult:
    """Gives its answers one after the other; a question too many is an error."""

    answers: list[Answer]
    max_prompt_tokens: int = 24_000
    model: str = "scripted"
    asked: list[tuple[Message, ...]] = field(default_factory=list)

    async def ask(self, messages: Sequence[Message]) -> Answer:
        self.asked.append(tuple(messages))
        assert self.answers, f"question {len(self.asked)} was not foreseen"
        return self.answers.pop(0)

    def question(self, number: int = 0) -> str:
        """Text of the last message of a call."""
        return self.asked[number][-1].text
