r"""Prompts: what a language model is asked, for each operator, within a budget of tokens.

    build_prompt --> fit --> messages_of --> Consult.ask
                      \--> Excess: too long even when cut

A prompt is a system text and sections. It begins with what all prompts of a run share and ends with
the task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from archives.llm_call import Message
from operators.llm.budget import cut_to
from operators.llm.consult import Briefing
from operators.llm.passages import (
    closing_sections,
    common_sections,
    failed_sections,
    inspiration_sections,
    lesson_sections,
    parent_sections,
)
from operators.llm.sections import (
    BYTES_PER_TOKEN,
    Cut,
    Section,
    render,
    rendered_size,
    size_of,
    tokens_in,
)
from operators.llm.template import system_text
from operators.operator import OperatorContext, Parent
from problems.errors import OperatorError

__all__ = ["Excess", "Prompt", "build_prompt", "fit", "messages_of", "shrunk"]

_UNCUT_PARENTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is asked.

    Attributes:
        system: The model's role, for every prompt the same.
        sections: The question, in the order to be read.
    """

    system: str
    sections: tuple[Section, ...]

    def render(self) -> str:
        """Return the text of the question; `sections.parse` reads it back."""
        return render(self.sections)

    @property
    def tokens(self) -> int:
        """Tokens of it all, rather too many than too few."""
        question = rendered_size(self.sections)
        return tokens_in(self.system) + math.ceil(question / BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """Why there is no prompt: what must not be cut is too long by itself.

    Attributes:
        least_tokens: Tokens of the shortest prompt.
        max_tokens: Tokens that it may have.
    """

    least_tokens: int
    max_tokens: int

    def __str__(self) -> str:
        return (
            f"the shortest prompt has {self.least_tokens} tokens, at most {self.max_tokens} are "
            "permitted: raise llm.max_prompt_tokens or take a model that reads more"
        )


def build_prompt(
    operator: str, context: OperatorContext, parents: Sequence[Parent], briefing: Briefing
) -> Prompt:
    """Return the whole prompt of an operator, before `fit` cuts it.

    Args:
        operator: "llm.translate", "llm.mutate", "llm.crossover" or "llm.repair".
        context: The problem and the device.
        parents: As many as the operator wants, in any order.
        briefing: What the search knows besides.

    Raises:
        OperatorError: There is no prompt for such an operator.
    """
    brief = _BRIEFS.get(operator)
    if brief is None:
        known = ", ".join(_BRIEFS)
        raise OperatorError(f"there is no prompt for the operator {operator!r}: expected {known}")
    return Prompt(
        system=system_text(),
        sections=(
            *common_sections(context, briefing, has_parent=bool(parents)),
            *lesson_sections(briefing),
            *inspiration_sections(briefing),
            *brief.parents(parents, briefing),
            *closing_sections(briefing, brief.task, brief.answer),
        ),
    )


def fit(prompt: Prompt, max_tokens: int) -> Prompt | Excess:
    """Return the prompt cut to a number of tokens, or why that cannot be.

    What goes first: inspirations (the slowest first), lessons, configurations between the best and
    the worst, details of the operator graph, a crossover's parents beyond the fastest two, the
    example of a program where a parent shows one. The rest stays.
    """
    cut = _cut(prompt, max_tokens)
    tokens = cut.tokens
    return cut if tokens <= max_tokens else Excess(least_tokens=tokens, max_tokens=max_tokens)


def shrunk(prompt: Prompt) -> Prompt | Excess:
    """Return a prompt of half the length, or else the shortest one, for a model that reads less.

    Where nothing can be cut, the answer is why.
    """
    tokens = prompt.tokens
    half = _cut(prompt, tokens // 2)
    least = half.tokens
    return half if least < tokens else Excess(least_tokens=least, max_tokens=tokens // 2)


def messages_of(prompt: Prompt) -> tuple[Message, ...]:
    """Return what `Consult.ask` takes: the system message and the question."""
    return (
        Message(role="system", text=prompt.system),
        Message(role="user", text=prompt.render()),
    )


def _cut(prompt: Prompt, max_tokens: int) -> Prompt:
    budget_bytes = max_tokens * BYTES_PER_TOKEN - size_of(prompt.system) - 2 * BYTES_PER_TOKEN
    return replace(prompt, sections=cut_to(prompt.sections, budget_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Brief:
    """What is special about an operator's prompt.

    Attributes:
        task: Template of its task.
        answer: Template of how to answer.
        parents: Its parents' sections.
    """

    task: str
    answer: str
    parents: Callable[[Sequence[Parent], Briefing], tuple[Section, ...]]


def _none(parents: Sequence[Parent], briefing: Briefing) -> tuple[Section, ...]:
    assert not parents, "a translation has no parents"
    return ()


def _one(parents: Sequence[Parent], briefing: Briefing) -> tuple[Section, ...]:
    (parent,) = parents
    return parent_sections(parent, briefing)


def _several(parents: Sequence[Parent], briefing: Briefing) -> tuple[Section, ...]:
    """Parents from slow to fast; 1 is the fastest."""
    ordered = sorted(parents, key=lambda parent: parent.evaluation.objective_speedup or 0.0)
    sections: list[Section] = []
    for rank, parent in zip(range(len(ordered), 0, -1), ordered, strict=True):
        cut = Cut.NEVER if rank <= _UNCUT_PARENTS else Cut.PARENT
        sections += parent_sections(parent, briefing, f"Parent {rank}", cut=cut)
    return tuple(sections)


def _failed(parents: Sequence[Parent], briefing: Briefing) -> tuple[Section, ...]:
    (parent,) = parents
    return failed_sections(parent)


_BRIEFS: Mapping[str, _Brief] = MappingProxyType(
    {
        "llm.translate": _Brief(task="task_translate", answer="answer_module", parents=_none),
        "llm.mutate": _Brief(task="task_mutate", answer="answer_edits", parents=_one),
        "llm.crossover": _Brief(task="task_crossover", answer="answer_module", parents=_several),
        "llm.repair": _Brief(task="task_repair", answer="answer_edits", parents=_failed),
    }
)
