"""Passages: the sections of a prompt that say what this problem, this device and this search are.

What does not change within a problem is made once and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from archives.evaluation import LibraryPolicy
from operators.llm.consult import Briefing
from operators.llm.describe import (
    LEADING_CONFIGURATIONS,
    configuration_lines,
    describe_failure,
    describe_numbers,
    describe_speed,
)
from operators.llm.focus import focus_sections
from operators.llm.graph_words import graph_lines
from operators.llm.sections import Cut, Section, inline
from operators.llm.template import template
from operators.operator import OperatorContext, Parent
from problems.graph import OperatorGraph
from problems.problem import Domain, DomainKind, Problem

__all__ = [
    "closing_sections",
    "common_sections",
    "failed_sections",
    "inspiration_sections",
    "lesson_sections",
    "parent_sections",
]

GRAPH_TOKENS = 2500
CONFIGURATIONS_TOKENS = 1500
LESSONS_TOKENS = 1000
INSPIRATION_TOKENS = 5000
_LEAST_GRAPH_LINES = 12
_LEAST_LESSON_LINES = 5
"""The introduction, an empty line, and three lessons."""
_PLACES = {"cpu": "candidate_cpu", "cuda": "candidate_cuda"}

_GRAPH = (
    "The operations that the reference runs, in order, as they were recorded, with shapes and "
    "dtypes. What is not said to be a view reads and writes memory."
)
_LESSONS = (
    "Earlier programs for this problem, or for problems of its family, were thrown away. What they "
    "teach, most frequent first:\n"
)
_LIBRARY: Mapping[LibraryPolicy, str] = MappingProxyType(
    {
        "allow": (
            "Library calls (`torch.matmul`, `F.conv2d`, ...) count as much as kernels of your own: "
            "use them where nothing that you write is faster. They are what you are measured "
            "against, so gain by fewer or cheaper ones, or by kernels for the rest of the work."
        ),
        "mark": (
            "Library calls that do the main work (`torch.matmul`, `F.conv2d`, ...) gain nothing: "
            "they are what you are measured against. Allocating, reshaping and viewing with torch "
            "is fine."
        ),
        "reject": (
            "No library calls that do the main work (`torch.matmul`, `F.conv2d`, ...): kernels of "
            "your own must take nearly all of the time. Allocating, reshaping and viewing with "
            "torch is fine."
        ),
    }
)
"""The last of the rules: what library work is worth, by the run's policy."""


def common_sections(
    context: OperatorContext, briefing: Briefing, *, has_parent: bool
) -> tuple[Section, ...]:
    """Return what every prompt begins with: the rules, the form, the problem, the device.

    What is the same for all prompts of a run stands first: providers keep common beginnings.

    Args:
        context: Problem, graph, device, and what library work is worth.
        briefing: What the device allows.
        has_parent: Whether a parent shows what a program looks like, so that the example may go.
    """
    sections = (*_forms(context.device, context.library, has_parent), *_problem(context.problem))
    if context.graph is not None:
        sections += _graph(_Traced(context.problem.key, context.graph))
    return (*sections, _device(context, briefing))


def lesson_sections(briefing: Briefing) -> tuple[Section, ...]:
    """Return what failures teach; nothing where there were none."""
    if not briefing.lessons:
        return ()
    # Lessons hold lines of logs, so each stays one line, whoever wrote it.
    lines = [f"- {' '.join(lesson.split())}" for lesson in briefing.lessons]
    lessons = Section(
        title="Lessons",
        prose="\n".join((_LESSONS, *lines)),
        cut=Cut.LESSONS,
        kept_lines=_LEAST_LESSON_LINES,
        most_tokens=LESSONS_TOKENS,
    )
    return (lessons,)


def inspiration_sections(briefing: Briefing) -> tuple[Section, ...]:
    """Return other programs that are right, from slow to fast; 1 is the fastest."""
    ranks = range(len(briefing.inspirations), 0, -1)
    return tuple(
        Section(
            title=f"Inspiration {rank}: another program that is right",
            prose=describe_numbers(parent.evaluation),
            data=parent.candidate.source,
            language="python",
            cut=Cut.INSPIRATION,
            most_tokens=INSPIRATION_TOKENS,
        )
        for rank, parent in zip(ranks, briefing.inspirations, strict=True)
    )


def parent_sections(
    parent: Parent, briefing: Briefing, name: str = "The parent", *, cut: Cut = Cut.NEVER
) -> tuple[Section, ...]:
    """Return a correct parent: its numbers, its source, every configuration tried.

    Args:
        parent: The parent.
        briefing: What the device allows.
        name: What it is called.
        cut: When its source is cut.
    """
    source = Section(
        title=name,
        prose=describe_numbers(parent.evaluation, briefing.speed),
        data=parent.candidate.source,
        language="python",
        cut=cut,
    )
    return (source, *_configurations(parent, name))


def failed_sections(parent: Parent) -> tuple[Section, ...]:
    """Return a parent that failed: its source, the verdict, and the log."""
    verdict = parent.evaluation
    return (
        Section(title="The program", data=parent.candidate.source, language="python"),
        *_configurations(parent, "The program"),
        Section(
            title="How it failed", prose=describe_failure(verdict), data=verdict.log or "(no log)"
        ),
    )


def closing_sections(briefing: Briefing, task: str, answer: str) -> tuple[Section, ...]:
    """Return what every prompt ends with: the focus, the task, how to answer."""
    return (*focus_sections(briefing.focus), *template(task), *template(answer))


@dataclass(frozen=True, slots=True)
class _Traced:
    """An operator graph as a key of a cache: hashed by its problem, compared as a whole."""

    key: str
    graph: OperatorGraph = field(hash=False)


@lru_cache(maxsize=8)
def _forms(device: str, library: LibraryPolicy, has_parent: bool) -> tuple[Section, ...]:
    first, *others = template(_PLACES.get(device, "candidate_cuda"))
    (rules,) = template("rules")
    return (
        replace(rules, prose=f"{rules.prose}\n- {_LIBRARY[library]}"),
        replace(first, cut=Cut.SKELETON if has_parent else Cut.NEVER),
        *(replace(other, cut=Cut.SKELETON) for other in others),
        *template("configuration"),
    )


@lru_cache(maxsize=64)
def _problem(problem: Problem) -> tuple[Section, ...]:
    prose = (
        f"The reference, at the sizes that count. Inputs and weights are {problem.precision}, "
        "except where its source says otherwise. A program is for these sizes and constructor "
        "arguments alone, so both may be written into the kernel."
    )
    words = [_domain(f"input{i}", domain) for i, domain in enumerate(problem.domains)]
    special = [word for word in words if word]
    if special:
        prose += f" Inputs keep their kind in every check: {'; '.join(special)}."
    return (
        Section(
            title=f"The problem: {inline(problem.label, 80)}",
            prose=prose,
            data=problem.source,
            language="python",
        ),
    )


def _domain(name: str, domain: Domain) -> str:
    """What is special about an input's values; "" for real numbers."""
    if domain.kind is DomainKind.REAL:
        return ""
    kind = domain.kind.value.replace("_", " ")
    return f"{name} is {kind}" + (f" below {domain.upper}" if domain.upper is not None else "")


@lru_cache(maxsize=64)
def _graph(traced: _Traced) -> tuple[Section, ...]:
    return (
        Section(
            title="What the reference does",
            prose=_GRAPH,
            data="\n".join(graph_lines(traced.graph)),
            cut=Cut.GRAPH,
            kept_lines=_LEAST_GRAPH_LINES,
            most_tokens=GRAPH_TOKENS,
        ),
    )


def _device(context: OperatorContext, briefing: Briefing) -> Section:
    if context.device == "cpu":
        threads = f"{context.threads} thread{'s' if context.threads != 1 else ''}"
        vectors = f"vector registers of {context.vector_bits} bits and " * bool(context.vector_bits)
        place = f"The program runs on a CPU, with {vectors}{threads} for OpenMP."
    else:
        place = "The program runs on a GPU."
    allowed = describe_speed(briefing.speed, briefing.reference_ms)
    return Section(title="The device", prose=f"{place} {allowed}".strip())


def _configurations(parent: Parent, name: str) -> tuple[Section, ...]:
    tried = parent.tried or parent.evaluation.configurations
    if len(tried) < 2:
        return ()
    lines = configuration_lines(tried)
    prose = (
        f"{len(tried)} points of its space, with the time of a call where it was right: the "
        "fastest and the slowest ones first, then some failures."
    )
    return (
        Section(
            title=f"{name}: configurations tried",
            prose=prose,
            data="\n".join(lines),
            cut=Cut.CONFIGURATIONS,
            kept_lines=LEADING_CONFIGURATIONS,
            most_tokens=CONFIGURATIONS_TOKENS,
        ),
    )
