"""Sections: a prompt's text, in which other people's text never leaves its fence.

A section is a heading, prose of our own, and at most one quotation:

    ## Title

    Prose.

    ```python
    quotation
    ```

The fence is longer than any run of backticks in the quotation, and a line of prose that looks like
a heading or a fence gets a backslash. So whatever a candidate, a log or a user's file says, the
text parses back to the same sections.

Covered: text that plays a heading, a fence, or the end of its own quotation. Not covered: a model
that follows what a quotation says; no reply of a model affects a verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

__all__ = [
    "BYTES_PER_TOKEN",
    "Cut",
    "Section",
    "inline",
    "parse",
    "render",
    "rendered_size",
    "size_of",
    "tokens_in",
]

BYTES_PER_TOKEN = 2.5
"""UTF-8 bytes that one token holds at least, on source code.

Of 400 files (this repository, its sketches in C++, Triton's and ATen's sources) none over 600
bytes has fewer for any of four tokenizers (cl100k, o200k, and one each of Anthropic and DeepSeek);
the median is 3.6 to 4.0. A table of random digits or text in Chinese may have fewer.
"""

_MARK = re.compile(r"^(\\*)(## |```)", re.MULTILINE)
_ESCAPED = re.compile(r"^\\(\\*)(## |```)", re.MULTILINE)
_OPENING = re.compile(r"(`{3,})([a-z+]*)")
_BACKTICKS = re.compile(r"`{3,}")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Cut(IntEnum):
    """Which sections are cut when a prompt is too long: those with small numbers first."""

    INSPIRATION = 1
    LESSONS = 2
    CONFIGURATIONS = 3
    GRAPH = 4
    PARENT = 5
    """Parents of a crossover beyond the fastest two."""
    SKELETON = 6
    """What a program looks like, where a parent shows it too."""
    NEVER = 7


@dataclass(frozen=True, kw_only=True)  # no slots: its text is kept, many prompts share a section
class Section:
    """One section; how it is cut is no part of its text, and of no comparison.

    Attributes:
        title: One line of our own.
        prose: Text of our own; begins and ends with no line break.
        data: Somebody else's text, or a table; None: there is none.
        language: Tag of the fence around `data`, such as "python"; lower-case letters.
        cut: When it is cut.
        kept_lines: How many lines of `data` (of `prose` where there is no data) stay when it is
            cut, those at the end go first; None: it stays or goes as a whole.
        most_tokens: Its own budget, whatever else there is to say; None: none.
        left_out: Lines that were cut already; the last line says so.
    """

    title: str
    prose: str = ""
    data: str | None = None
    language: str = "text"
    cut: Cut = field(default=Cut.NEVER, compare=False)
    kept_lines: int | None = field(default=None, compare=False)
    most_tokens: int | None = field(default=None, compare=False)
    left_out: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        assert self.title == self.title.strip(), f"the title {self.title!r} has margins"
        assert "\n" not in self.title, f"the title {self.title!r} has two lines"
        assert self.prose == self.prose.strip("\n"), "prose begins and ends with no line break"

    @cached_property
    def text(self) -> str:
        """How it reads in a prompt, lone surrogates as they are; ends with a line break."""
        parts = [f"## {self.title}\n"]
        if self.prose:
            prose = self.prose
            if "## " in prose or "```" in prose:
                prose = _MARK.sub(r"\\\1\2", prose)
            parts.append(f"\n{prose}\n")
        if self.data is not None:
            fence = _fence(self.data)
            parts.append(f"\n{fence}{self.language}\n{self.data}\n{fence}\n")
        return "".join(parts)

    @cached_property
    def size(self) -> int:
        """Bytes that it takes in a prompt; a lone surrogate and what stands for it have three."""
        return size_of(self.text)


def inline(text: str, most: int = 160) -> str:
    """Return somebody else's text as a part of one line of prose.

    Line breaks and whatever is not printable become spaces, backticks become quotes, and what is
    longer than `most` characters ends in "...".
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text[: 4 * most])
    text = " ".join(text.replace("`", "'").split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def render(sections: Sequence[Section]) -> str:
    """Return the text of some sections; each lone surrogate in it becomes U+FFFD."""
    text = "\n".join([section.text for section in sections])
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def rendered_size(sections: Sequence[Section]) -> int:
    """Return the bytes of what `render` returns, without the text itself."""
    between = max(0, len(sections) - 1)
    return between + sum([section.size for section in sections])


def parse(text: str) -> tuple[Section, ...]:
    """Return the sections of a rendered text.

    Raises:
        ValueError: The text is not one that `render` returns.
    """
    lines = text.split("\n")
    sections: list[Section] = []
    at = 0
    while at < len(lines):
        if not lines[at].startswith("## "):
            raise ValueError(f"line {at + 1} is {lines[at]!r}, expected a heading '## Title'")
        section, at = _section(lines, at)
        sections.append(section)
    return tuple(sections)


def tokens_in(text: str) -> int:
    """Return how many tokens a text has, rather too many than too few."""
    return math.ceil(size_of(text) / BYTES_PER_TOKEN)


def size_of(text: str) -> int:
    """Return the bytes of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _fence(data: str) -> str:
    if "```" not in data:
        return "```"
    return "`" * (1 + max(len(run) for run in _BACKTICKS.findall(data)))


def _section(lines: Sequence[str], at: int) -> tuple[Section, int]:
    """The section whose heading is line `at`, and the line after it."""
    title = lines[at].removeprefix("## ")
    start = end = at + 1
    while end < len(lines) and not lines[end].startswith(("## ", "```")):
        end += 1
    prose = _ESCAPED.sub(r"\1\2", "\n".join(lines[start:end]).strip("\n"))
    if end == len(lines) or lines[end].startswith("## "):
        return Section(title=title, prose=prose), end
    opening = _OPENING.fullmatch(lines[end])
    if opening is None:
        raise ValueError(f"line {end + 1} is {lines[end]!r}, expected a fence and its language")
    fence, language = opening.groups()
    try:
        close = lines.index(fence, end + 1)
    except ValueError:
        raise ValueError(f"the fence in line {end + 1} is not closed: expected {fence!r}") from None
    data = "\n".join(lines[end + 1 : close])
    after = close + 1
    while after < len(lines) and not lines[after]:
        after += 1
    return Section(title=title, prose=prose, data=data, language=language), after
