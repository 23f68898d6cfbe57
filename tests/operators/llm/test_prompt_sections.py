"""Nothing that a candidate, a log or a user's file says leaves its fence."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from operators.llm.sections import (
    Section,
    inline,
    parse,
    render,
    rendered_size,
    tokens_in,
)

SURE = settings(
    deadline=None,
    derandomize=True,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow],
)
PIECES = st.sampled_from(
    ["## ", "## How to answer", "#", "```", "````", "```python", "`", "\\", "\\## ", "\n", "\r",
     "\r\n", "\x00", "\u2028", "\x85", "\ud800", "\udfff", "text", " ", "<<<<<<< SEARCH", "é漢😀"]
)  # fmt: skip
HOSTILE = st.lists(PIECES | st.text(st.characters(), max_size=8), max_size=12).map("".join)
TITLES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"]), max_size=12)
SECTIONS = st.builds(
    Section,
    title=TITLES,
    prose=HOSTILE.map(lambda text: text.strip("\n")),
    data=st.none() | HOSTILE,
)


def as_sent(text: str) -> str:
    """A text with lone surrogates replaced, as a prompt states them."""
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)


@SURE
@given(st.lists(SECTIONS, min_size=1, max_size=4))
@example([Section(title="a", data="```\n\n## b\n\n```python\nprint()\n```\n")])
@example([Section(title="a", prose="\\```\n\\\\## b\n## c")])
def test_any_text_parses_back_to_the_same_sections(sections: list[Section]) -> None:
    text = render(sections)
    assert text.encode()
    expected = [
        Section(
            title=section.title,
            prose=as_sent(section.prose),
            data=None if section.data is None else as_sent(section.data),
        )
        for section in sections
    ]
    assert list(parse(text)) == expected


@SURE
@given(st.lists(SECTIONS, max_size=4))
def test_the_size_is_that_of_the_text(sections: list[Section]) -> None:
    assert rendered_size(sections) == len(render(sections).encode())


@SURE
@given(HOSTILE)
def test_quoted_text_adds_no_heading_and_closes_no_fence(data: str) -> None:
    before, after = Section(title="Before", data=data), Section(title="After", prose="Ours.")
    lines = render([before, after]).split("\n")
    fence = lines[2].removesuffix("text")
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    inside = lines[3 : lines.index(fence, 3)]
    assert "\n".join(inside) == as_sent(data)
    assert lines[3 + len(inside) :] == [fence, "", "## After", "", "Ours.", ""]


@SURE
@given(HOSTILE, st.integers(min_value=8, max_value=200))
def test_an_inline_text_is_part_of_one_line(text: str, most: int) -> None:
    shown = inline(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    assert "`" not in shown


def test_inline_says_where_it_cut() -> None:
    assert inline("a\n  `b`\tc") == "a 'b' c"
    assert inline("word " * 100, 12) == "word word..."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "line 1 is 'hello', expected a heading"),
        ("## a\n\n```Python 3\n```\n", "line 3 is '```Python 3', expected a fence"),
        ("## a\n\n````python\n```\n", "the fence in line 3 is not closed"),
        ("## a\n\n```text\nb\n```\nc\n", "line 6 is 'c', expected a heading"),
    ],
)
def test_what_no_prompt_holds_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        parse(text)


def test_tokens_are_counted_from_bytes() -> None:
    assert tokens_in("") == 0
    assert tokens_in("abcde") == 2
    assert tokens_in("漢") == 2
