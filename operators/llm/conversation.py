"""One proposal's conversation with a model: a question, and at most three follow-ups.

    question ── too long for the model ──> once more, with a shorter prompt
       │
    answer ──── cut off ──> go on ── two parts joined
       │
    program? ── no ──> what is wrong, quoted ──> second answer

Each follow-up is asked once at most. Where it fails, what was there before counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from archives.llm_call import CallOutcome, Message
from operators.llm.consult import Answer, Consult
from operators.llm.fences import unified, without_thoughts
from operators.llm.joining import joinings
from operators.llm.program import Defect
from operators.llm.prompt import Prompt, messages_of, shrunk
from operators.llm.reply import Reading, read_reply
from operators.llm.sections import inline, render
from operators.llm.template import template

__all__ = ["Conclusion", "converse"]

_CUT = "length"
_CUT_OFF = "llm_cut_off"
_LEFT_AS_THEY_ARE = frozenset({"llm_no_change", "llm_too_long"})
"""Defects that a second answer would hardly mend."""

_NOTE_CHARACTERS = 120
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What a conversation came to.

    Attributes:
        source: Text of the program, or None.
        reason: Stable code why there is none: "llm_" and the outcome of the call that failed, or a
            reason of `read_reply`, or "llm_cut_off"; "" where there is one.
        note: What the model says it did, or what went wrong; one line for people, may be "".
        cost_usd: Money for all its questions.
    """

    source: str | None
    reason: str = ""
    note: str = ""
    cost_usd: float = 0.0


async def converse(consult: Consult, prompt: Prompt, parent: str | None) -> Conclusion:
    """Ask for a program until there is one or the follow-ups are used up.

    Args:
        consult: The model.
        prompt: The question.
        parent: Text that SEARCH/REPLACE blocks apply to; None: only a whole module will do.
    """
    talk = _Talk(consult)
    answer = await talk.ask(messages_of(prompt))
    if answer.outcome is CallOutcome.CONTEXT_OVERFLOW:
        shorter = shrunk(prompt)
        if isinstance(shorter, Prompt):
            answer = await talk.ask(messages_of(shorter))
    if answer.outcome is not CallOutcome.OK:
        return Conclusion(
            source=None,
            reason=f"llm_{answer.outcome}",
            note=inline(answer.log, _NOTE_CHARACTERS),
            cost_usd=talk.cost_usd,
        )
    text, reading = await _finished(talk, answer, parent)
    if reading.defect is not None and _is_correctable(reading.defect):
        reading = await _corrected(talk, text, reading, reading.defect, parent)
    return _conclusion(reading, talk.cost_usd)


class _Talk:
    """What was said, and what it cost.

    Attributes:
        cost_usd: Money so far.
    """

    def __init__(self, consult: Consult) -> None:
        self.cost_usd = 0.0
        self._consult = consult
        self._question: tuple[Message, ...] = ()

    async def ask(self, question: Sequence[Message]) -> Answer:
        """Ask a first question."""
        self._question = tuple(question)
        return await self._asked(self._question)

    async def follow_up(self, said: str, reply: str) -> Answer:
        """Ask again after the model's answer to the first question."""
        return await self._asked(
            (
                *self._question,
                Message(role="assistant", text=_SURROGATE.sub("\ufffd", said) or "(nothing)"),
                Message(role="user", text=reply),
            )
        )

    async def _asked(self, messages: tuple[Message, ...]) -> Answer:
        answer = await self._consult.ask(messages)
        self.cost_usd += answer.cost_usd
        return answer


async def _finished(talk: _Talk, answer: Answer, parent: str | None) -> tuple[str, Reading]:
    """The answer and its reading; where it was cut off within its program, with the rest."""
    text, reading = answer.text, read_reply(answer.text, parent)
    if answer.finish != _CUT or _is_complete(reading):
        return text, reading
    rest = await talk.follow_up(text, render(template("continue")))
    if rest.outcome is CallOutcome.OK:
        text, reading = _joined(text, rest.text, parent)
        if rest.finish != _CUT:
            return text, reading
    # What was cut in the middle may parse all the same, and would be measured for nothing.
    return text, reading if _is_complete(reading) else _cut_off(reading)


def _joined(first: str, second: str, parent: str | None) -> tuple[str, Reading]:
    """The first way to join two parts that gives a program, or else the likeliest way."""
    readings = [(text, read_reply(text, parent)) for text in joinings(first, second)]
    return next((pair for pair in readings if pair[1].source is not None), readings[0])


async def _corrected(
    talk: _Talk, text: str, reading: Reading, defect: Defect, parent: str | None
) -> Reading:
    """The reading of a second answer, or the first one where that is no worse."""
    said = without_thoughts(unified(text)).strip() or text.strip()
    answer = await talk.follow_up(said, _correction(defect))
    if answer.outcome is not CallOutcome.OK:
        return reading
    second = read_reply(answer.text, parent)
    if second.source is None and reading.source is not None:
        # Blocks may have been written against the first answer, and it runs as it is.
        second = read_reply(answer.text, reading.source)
        return reading if second.source is None else replace(second, note=reading.note)
    return replace(second, note=reading.note or second.note)


def _correction(defect: Defect) -> str:
    sections = [
        section if section.data is None else replace(section, data=defect.sentence)
        for section in template("correct")
    ]
    return render(sections)


def _is_correctable(defect: Defect) -> bool:
    return defect.reason not in _LEFT_AS_THEY_ARE and defect.reason != _CUT_OFF


def _cut_off(reading: Reading) -> Reading:
    sentence = "The answer was cut off before the program ended: raise llm.max_output_tokens"
    return Reading(defect=Defect(reason=_CUT_OFF, sentence=sentence), note=reading.note)


def _is_complete(reading: Reading) -> bool:
    return reading.source is not None and reading.closed


def _conclusion(reading: Reading, cost_usd: float) -> Conclusion:
    if reading.source is not None:
        return Conclusion(source=reading.source, note=reading.note, cost_usd=cost_usd)
    assert reading.defect is not None, "a reading has a program or a defect"
    note = inline(reading.defect.sentence, _NOTE_CHARACTERS)
    return Conclusion(source=None, reason=reading.defect.reason, note=note, cost_usd=cost_usd)
