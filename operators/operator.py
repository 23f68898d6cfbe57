"""The protocol that every operator follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from archives.attempt import Slot
from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.evaluation import ConfigurationResult, Evaluation, LibraryPolicy
from operators.llm.consult import Briefing, Consult
from operators.relatives import Relative
from problems.graph import OperatorGraph
from problems.lifted import Lifted
from problems.problem import Problem

__all__ = ["Operator", "OperatorContext", "Parent", "Proposal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A candidate to vary, with what is known of it.

    Attributes:
        slot: The attempt that brought it into the island.
        candidate: Its program, the winning configuration written in.
        evaluation: Its latest evaluation.
        tried: Every configuration of this program that was ever tried on this problem.
    """

    slot: Slot
    candidate: Candidate
    evaluation: Evaluation
    tried: tuple[ConfigurationResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What an operator may know besides its parents.

    Attributes:
        problem: The problem.
        graph: What its reference does; None where it could not be traced.
        device: "cpu" or "cuda".
        threads: Threads that a CPU kernel may use.
        vector_bits: Width of the CPU's vector registers; 0: not known.
        generation: The current generation, from 0.
        island: The island, from 0.
        seeds: Human kernels for this problem: (name, source) pairs.
        lifted: What Inductor wrote for the reference, by set of options; empty where the run does
            not use it.
        known: Ids of all candidates and programs already proposed for this problem.
        relatives: What was best for other problems of the family: bests before second bests, of
            each the nearest problem first; from finished generations only.
        library: What the run makes of candidates that leave the work to a library.
        settings: The operator's own settings from the configuration.
        consult: Asks a language model; None where there is none to ask.
        brief: Tells what the search knows besides these parents; None where nobody does.
    """

    problem: Problem
    graph: OperatorGraph | None
    device: str = "cpu"
    threads: int = 1
    vector_bits: int = 0
    generation: int = 0
    island: int = 0
    seeds: Sequence[tuple[str, str]] = ()
    lifted: Sequence[Lifted] = ()
    known: Set[str] = frozenset()
    relatives: Sequence[Relative] = ()
    library: LibraryPolicy = "mark"
    settings: Mapping[str, object] = field(default_factory=dict)
    consult: Consult | None = None
    brief: Callable[[Sequence[Parent]], Briefing] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What an operator brings forth: a program, or a reason why there is none.

    Attributes:
        source: Text of the child, or None.
        configurations: Points of its space to try, the evaluator picks the best; empty: only
            the point written in the source.
        note: What was changed, one line for people.
        reason: Stable code why there is no source; "" where there is one.
        cost_usd: Money spent.
    """

    source: str | None
    configurations: tuple[Configuration, ...] = ()
    note: str = ""
    reason: str = ""
    cost_usd: float = 0.0

    def __post_init__(self) -> None:
        assert (self.source is None) == bool(self.reason), "a proposal has a source or a reason"


class Operator(Protocol):
    """Turns parents into a child.

    An operator is stateless: the same parents, context and random stream give the same
    proposal (LLM operators: apart from the model's reply, which is recorded). A plain attribute
    serves where a property is named here.
    """

    @property
    def name(self) -> str:
        """Its name in configurations, stores and reports."""
        ...

    @property
    def num_parents(self) -> tuple[int, int]:
        """How many parents it wants: (least, most)."""
        ...

    @property
    def from_failures(self) -> bool:
        """True where its parents are failed candidates (repair)."""
        ...

    def applies(self, context: OperatorContext) -> bool:
        """Tell whether the operator can do anything for this problem at all."""
        ...

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose one child; a failure is a `Proposal` with a reason, never an exception."""
        ...
