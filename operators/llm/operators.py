"""The operators that ask a language model: "llm.translate", "llm.mutate", and two more.

They differ in their parents and in what the prompt asks for; how a model is asked and its answer
read is the same for all. A child's parameters are the tuner's business; at most a few points
besides the model's own are tried at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archives.candidate import Candidate
from archives.configuration import Configuration, read_configuration, read_space
from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Lattice
from operators.llm.consult import Briefing
from operators.llm.conversation import converse
from operators.llm.prompt import Excess, build_prompt, fit
from operators.operator import OperatorContext, Parent, Proposal
from operators.settings import Setting
from operators.tune import propose_points

__all__ = ["CROSSOVER", "MUTATE", "REPAIR", "TRANSLATE", "LlmOperator"]

_CONFIGURATIONS = Setting(name="configurations", default=1, least=1, most=64)
"""Points of the child's space to try; the first is the one that the model wrote down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOperator:
    """Asks a language model for a program.

    Attributes:
        name: One that `build_prompt` knows.
        num_parents: How many parents it wants: (least, most).
        from_failures: Whether its parents are failed candidates.
        settings: What may be set.
    """

    name: str
    num_parents: tuple[int, int]
    from_failures: bool = False
    settings: tuple[Setting, ...] = (_CONFIGURATIONS,)

    def applies(self, context: OperatorContext) -> bool:
        """Tell whether there is a model to ask."""
        return context.consult is not None

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose the program that the model answers with.

        Args:
            parents: As many as `num_parents` says; an only one may be changed by SEARCH/REPLACE
                blocks.
            context: Its `consult` is asked, its `brief` tells what the search knows.
            rng: Chooses points besides the one that the model wrote down, if any are wanted.

        Reasons: "llm_prompt_too_long" where what must be said exceeds the limit, those of
        `Conclusion`, and "llm_no_change" for a program that is a parent's.
        """
        assert context.consult is not None, "the operator applies where there is a model"
        briefing = context.brief(parents) if context.brief is not None else Briefing()
        prompt = fit(
            build_prompt(self.name, context, parents, briefing), context.consult.max_prompt_tokens
        )
        if isinstance(prompt, Excess):
            return Proposal(source=None, reason="llm_prompt_too_long", note=str(prompt))
        base = parents[0].candidate.source if self.num_parents == (1, 1) else None
        end = await converse(context.consult, prompt, base)
        if end.source is None:
            return Proposal(source=None, reason=end.reason, note=end.note, cost_usd=end.cost_usd)
        child = Candidate.of(context.problem.key, end.source)
        if child.id in {parent.candidate.id for parent in parents}:
            return Proposal(
                source=None, reason="llm_no_change", note=end.note, cost_usd=end.cost_usd
            )
        return Proposal(
            source=end.source,
            configurations=_points(end.source, _CONFIGURATIONS.of(context.settings), rng),
            note=end.note or f"by {context.consult.model}",
            cost_usd=end.cost_usd,
        )


TRANSLATE = LlmOperator(name="llm.translate", num_parents=(0, 0))
MUTATE = LlmOperator(name="llm.mutate", num_parents=(1, 1))
CROSSOVER = LlmOperator(name="llm.crossover", num_parents=(2, 5))
REPAIR = LlmOperator(name="llm.repair", num_parents=(1, 1), from_failures=True)


def _points(source: str, count: int, rng: np.random.Generator) -> tuple[Configuration, ...]:
    """The program's own point and others of its space, `count` in all; empty: only its own."""
    if count == 1:
        return ()
    space, start = read_space(source), read_configuration(source)
    if not space or Lattice.of(space).encode(start) is None:
        return ()
    own = ConfigurationResult(configuration=start, status=Status.OK)
    return (start, *propose_points(space, [own], start, count - 1, rng))
