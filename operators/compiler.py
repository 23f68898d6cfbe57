"""The operator "compiler": Inductor's own code for the reference, as a program to start from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from archives.candidate import Candidate
from archives.configuration import Configuration, Space, read_configuration, read_space
from operators.founding import REPEATS
from operators.lifting.kernels import Unliftable
from operators.lifting.program import write_lifted
from operators.operator import OperatorContext, Parent, Proposal
from operators.settings import CONFIGURATIONS, Setting
from problems.lifted import SETS_OF, Lifted
from problems.problem import Problem

__all__ = ["COMPILER", "LIFTED_SETS", "ON_CPU", "Compiler"]

Point = dict[str, bool | int | float | str]
_TRIES = 20

_MOST_SETS = max(len(sets) for sets in SETS_OF.values())
LIFTED_SETS = Setting(name="option_sets", default=_MOST_SETS, least=1, most=_MOST_SETS)
"""Option sets that Inductor compiles a reference under, the cheap ones first."""
ON_CPU = Setting(name="on_cpu", default=0, least=0, most=1)
"""Whether it compiles for a CPU, too: 1 or 0. It takes 5 s of a core a problem there, and each
program 2 s to build, three times what sketches in C++ take, most of it in torch's headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """Proposes what Inductor wrote under one set of options, with points near its own choice.

    Attributes:
        settings: What may be set.
    """

    name: str = "compiler"
    num_parents: tuple[int, int] = (0, 0)
    from_failures: bool = False
    settings: tuple[Setting, ...] = (CONFIGURATIONS, LIFTED_SETS, ON_CPU, REPEATS)

    def applies(self, context: OperatorContext) -> bool:
        """Tell whether Inductor wrote anything for this problem."""
        return any(lifted.code for lifted in context.lifted)

    def num_programs(self, context: OperatorContext) -> int:
        """Return how many distinct programs were lifted; see `operators.founding`."""
        return len(_programs(context)[0])

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose a program that this problem has not seen, else other points of a known one.

        Args:
            parents: None are wanted.
            context: Its `lifted` texts are turned into programs; its `known` ids tell which of
                them are new.
            rng: Chooses among known programs, and the points.

        Returns:
            The program. Reasons: "nothing_lifted" where Inductor wrote nothing;
            "lifts_exhausted" where all is known, and nothing has other points or is to be
            repeated; otherwise why its text could not be turned into a program, such as
            "several_graphs".
        """
        sources, reason, detail = _programs(context)
        if not sources:
            return Proposal(source=None, reason=reason, note=detail)
        fresh = [program for program in sources if program not in context.known]
        if fresh:
            program = fresh[0]
        else:
            varied = [one for one, (source, _) in sources.items() if read_space(source)]
            if not (varied and REPEATS.of(context.settings)):
                return Proposal(source=None, reason="lifts_exhausted")
            program = varied[int(rng.integers(len(varied)))]
        source, options = sources[program]
        first = [dict(read_configuration(source))] if fresh else []
        points = _points(source, first, CONFIGURATIONS.of(context.settings), rng)
        note = f"Inductor's code, options {options}"
        if not fresh:
            note += ", other points of a known program"
        return Proposal(source=source, configurations=points, note=note)


COMPILER = Compiler()


def _programs(context: OperatorContext) -> tuple[dict[str, tuple[str, str]], str, str]:
    """(text, option set) of each program by its id; reason and detail of the last failure."""
    sources: dict[str, tuple[str, str]] = {}
    reason, detail = "nothing_lifted", "Inductor wrote nothing for this problem"
    for lifted in context.lifted:
        source, why, line = _written(context.problem, lifted)
        if source:
            # Sets of options often come to the same program.
            program = Candidate.of(context.problem.key, source).program_id
            sources.setdefault(program, (source, lifted.options))
        else:
            reason, detail = why, f"{lifted.options}: {line}"
    return sources, reason, detail


@lru_cache(maxsize=512)
def _written(problem: Problem, lifted: Lifted) -> tuple[str, str, str]:
    """The program, or reason and detail why there is none; kept, as each proposal asks for all."""
    if not lifted.code:
        return "", lifted.reason, lifted.detail
    try:
        return write_lifted(problem, lifted), "", ""
    except Unliftable as refusal:
        return "", refusal.reason, refusal.detail


def _points(
    source: str, first: list[Point], count: int, rng: np.random.Generator
) -> tuple[Configuration, ...]:
    """`count` distinct points, those of `first` included; fewer where the space is smaller.

    Each differs from Inductor's own choice in a few parameters: with many kernels, a point drawn
    from the whole space has a bad one among them nearly for certain.
    """
    space, chosen = read_space(source), dict(read_configuration(source))
    if not space:
        return ()
    points = list(first)
    for _ in range(_TRIES * count):
        if len(points) >= count:
            break
        point = _near(chosen, space, rng)
        if point not in points:
            points.append(point)
    return tuple(points)


def _near(chosen: Point, space: Space, rng: np.random.Generator) -> Point:
    """A point with one to three parameters drawn anew."""
    names = list(space)
    changed = rng.choice(len(names), min(int(rng.integers(1, 4)), len(names)), replace=False)
    point = dict(chosen)
    for index in changed:
        values = space[names[int(index)]]
        point[names[int(index)]] = values[int(rng.integers(len(values)))]
    return point
