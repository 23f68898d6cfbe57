"""What is cut when a prompt is too long, and what never is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.llm.consult import Briefing
from operators.llm.describe import LEADING_CONFIGURATIONS
from operators.llm.prompt import Excess, Prompt, build_prompt, fit, shrunk
from operators.llm.sections import Section, parse
from problems.graph import OperatorGraph
from tests.operators.llm.prompt_cases import GRAPH, PROGRAM, briefing, context, correct, tried

PLENTY = 100_000


def long_graph() -> OperatorGraph:
    return replace(GRAPH, nodes=GRAPH.nodes * 60)


def long_prompt(operator: str = "llm.mutate", parents: int = 1) -> Prompt:
    """A prompt in which everything that can be cut is long, though within its own budget."""
    brief = replace(
        briefing(),
        inspirations=tuple(
            correct(PROGRAM.format(style=f"way {n}") + "# more\n" * 300, 1 + n) for n in range(5)
        ),
        lessons=tuple(f"You cannot do number {n}." for n in range(20)),
    )
    given = [
        correct(PROGRAM.format(style=f"parent {n}"), 3 + n, configurations=tried(40))
        for n in range(parents)
    ]
    return build_prompt(operator, context(graph=long_graph()), given, brief)


def titles(prompt: Prompt) -> list[str]:
    return [section.title for section in prompt.sections]


def one(prompt: Prompt, title: str) -> Section:
    (section,) = [s for s in prompt.sections if s.title == title]
    return section


def fitted(prompt: Prompt, tokens: int) -> Prompt:
    result = fit(prompt, tokens)
    assert isinstance(result, Prompt)
    assert result.tokens <= tokens
    return result


def inspirations(prompt: Prompt) -> list[str]:
    """Ranks of the inspirations that are there, in their order."""
    return [t.split(":")[0][-1] for t in titles(prompt) if t.startswith("Inspiration")]


def state_of(prompt: Prompt) -> dict[str, int]:
    """What is there of each thing that can be cut."""
    text = titles(prompt)
    return {
        "inspirations": len(inspirations(prompt)),
        "lessons": one(prompt, "Lessons").prose.count("- You cannot"),
        "configurations": (one(prompt, "The parent: configurations tried").data or "").count("\n"),
        "graph": (one(prompt, "What the reference does").data or "").count("\n"),
        "example": "What a program looks like here" in text,
    }


def test_cuts_come_in_the_stated_order() -> None:
    whole = fitted(long_prompt(), PLENTY)
    states, tokens = [state_of(whole)], whole.tokens
    while isinstance(found := fit(whole, tokens := tokens - 100), Prompt):
        # the slowest goes first
        assert "".join(inspirations(found)) in ("54321", "4321", "321", "21", "1", "")
        if (state := state_of(found)) != states[-1]:
            states.append(state)
    order = list(states[0])
    changed = [
        name for before, after in pairwise(states) for name in order if before[name] != after[name]
    ]
    assert changed == sorted(changed, key=order.index)
    assert set(changed) == set(order)
    assert states[-1]["lessons"] == 3
    assert states[-1]["configurations"] == LEADING_CONFIGURATIONS
    assert states[-1]["example"] == 0


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.integers(min_value=0, max_value=20_000))
def test_the_parent_and_the_task_are_never_cut(tokens: int) -> None:
    prompt = long_prompt()
    result = fit(prompt, tokens)
    if isinstance(result, Excess):
        assert result.least_tokens > tokens
        assert str(result.least_tokens) in str(result)
        return
    assert result.tokens <= tokens
    assert parse(result.render()) == result.sections
    for title in (
        "The parent",
        "Rules of the referee",
        "Your task: a better version of the parent",
    ):
        assert one(result, title) == one(prompt, title)


def test_a_parent_that_is_too_long_by_itself_is_said_to_be() -> None:
    parent = correct(PROGRAM.format(style="length") + "# more\n" * 20_000)
    result = fit(build_prompt("llm.mutate", context(), [parent], Briefing()), 24_000)
    assert isinstance(result, Excess)
    assert result.max_tokens == 24_000
    assert result.least_tokens > 56_000
    assert "raise llm.max_prompt_tokens" in str(result)


def test_the_fastest_two_parents_of_a_crossover_stay() -> None:
    prompt = long_prompt("llm.crossover", parents=5)
    tokens = fitted(prompt, PLENTY).tokens
    last = prompt
    while isinstance(result := fit(prompt, tokens := tokens - 100), Prompt):
        last = result
    assert [t for t in titles(last) if t.startswith("Parent") and ":" not in t] == [
        "Parent 2",
        "Parent 1",
    ]


def test_what_was_cut_is_counted_through_several_cuts() -> None:
    prompt = fitted(long_prompt(), PLENTY)
    lines = (one(prompt, "What the reference does").data or "").split("\n")
    once = shrunk(prompt)
    assert isinstance(once, Prompt)
    cut = one(once, "What the reference does")
    kept = (cut.data or "").split("\n")
    assert kept[:-1] == lines[: len(kept) - 1]
    least = fit(once, 0)
    assert isinstance(least, Excess)
    twice = fitted(once, least.least_tokens)
    final = (one(twice, "What the reference does").data or "").split("\n")
    assert final[-1] == f"({len(lines) - len(final) + 1} lines left out)"
    assert final[:-1] == lines[: len(final) - 1]


def test_a_section_has_a_budget_of_its_own() -> None:
    huge = correct(PROGRAM.format(style="length") + "# more\n" * 4000)
    small = correct(PROGRAM.format(style="brevity"))
    brief = Briefing(inspirations=(small, huge))
    graph = replace(GRAPH, nodes=GRAPH.nodes * 2000)
    prompt = build_prompt("llm.translate", context(graph=graph), (), brief)
    result = fitted(prompt, PLENTY)
    assert [t for t in titles(result) if t.startswith("Inspiration")] == [
        "Inspiration 2: another program that is right"
    ]
    assert result.tokens < 10_000


def test_a_shrunk_prompt_has_half_the_length_or_the_least() -> None:
    whole = fitted(long_prompt(), PLENTY)
    half = shrunk(whole)
    assert isinstance(half, Prompt)
    assert half.tokens <= whole.tokens // 2
    least = fit(whole, 0)
    assert isinstance(least, Excess)
    shortest = shrunk(fitted(whole, least.least_tokens + 20))
    assert isinstance(shortest, Excess)
    assert shortest.least_tokens == pytest.approx(least.least_tokens, abs=20)


def test_fences_count() -> None:
    parent = correct(PROGRAM.format(style="ticks") + f"# {'`' * 3000}\n")
    prompt = build_prompt("llm.mutate", context(), [parent], briefing())
    least = fit(prompt, 0)
    assert isinstance(least, Excess)
    assert fitted(prompt, least.least_tokens + 5).tokens >= least.least_tokens
