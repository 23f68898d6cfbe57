"""A model's reply taken apart: thoughts removed, fenced blocks and the prose around them.

Models do not write Markdown by the book: fences are indented, left open, of either character, or
closed early by a fence that belongs to a docstring inside. The split here follows CommonMark; for
a block that turns out to be no whole program, `Fences.longer` offers later ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Block", "Fences", "unified", "without_thoughts"]

_FENCE = re.compile(r"([ \t]*)(`{3,}|~{3,})([^\n]*)")
_OPENED = re.compile(r"<(think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)
_CLOSED = re.compile(r"</(think|thinking|thought|thoughts|reasoning)>", re.IGNORECASE)

_MAX_LONGER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block.

    Attributes:
        text: What is inside, the fence's own indentation taken off; ends with a newline.
        first: Number of the opening fence's line, from 0.
        last: Number of the closing fence's line; that after the last one where it is left open.
        closed: Whether there is a closing fence.
    """

    text: str
    first: int
    last: int
    closed: bool


class Fences:
    """The fenced blocks of a text.

    Attributes:
        text: The text.
        blocks: Its blocks, in order.
    """

    def __init__(self, text: str) -> None:
        """Split a text with unified line ends."""
        self.text = text
        self._lines = text.split("\n")
        self._marks = {
            number: mark
            for number, line in enumerate(self._lines)
            if ("```" in line or "~~~" in line)
            and (mark := _FENCE.fullmatch(line))
            and not ("`" in mark[3] and mark[2][0] == "`")
        }
        self.blocks = tuple(self._split())

    @property
    def prose(self) -> str:
        """The lines outside the blocks."""
        inside = {n for block in self.blocks for n in range(block.first, block.last + 1)}
        return "\n".join(line for n, line in enumerate(self._lines) if n not in inside)

    @property
    def before(self) -> str:
        """The lines before the first fence; all where there is none."""
        return "\n".join(self._lines[: self.blocks[0].first if self.blocks else None])

    def longer(self, block: Block) -> Iterator[Block]:
        """Return what the block would be with each of the next closing fences as its end."""
        opening = self._marks[block.first]
        ends = [n for n in self._marks if n > block.last and _closes(self._marks[n], opening)]
        for end in ends[:_MAX_LONGER]:
            yield self._block(block.first, end)

    def _split(self) -> Iterator[Block]:
        start = None
        for number, mark in self._marks.items():
            if start is None:
                start = number
            elif _closes(mark, self._marks[start]) and _is_near(mark, self._marks[start]):
                yield self._block(start, number)
                start = None
        if start is not None:
            yield self._block(start, len(self._lines))

    def _block(self, first: int, last: int) -> Block:
        indent = len(self._marks[first][1])
        inside = self._lines[first + 1 : last]
        if indent:
            inside = [_outdented(line, indent) for line in inside]
        text = "\n".join(inside).rstrip()
        return Block(
            text=text + "\n" if text else "",
            first=first,
            last=last,
            closed=last < len(self._lines),
        )


def unified(text: str) -> str:
    """Return a text with line ends unified and without a byte order mark."""
    return text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")


def without_thoughts(text: str) -> str:
    """Return a text without its `<think>` parts.

    A part left open extends to the end; a closing tag without an opening one ends a part that
    began before the text did, as some servers leave it. Tags inside a fenced block are code.
    """
    start = 0
    orphan = _CLOSED.search(text)
    if orphan and not _OPENED.search(text, 0, orphan.start()):
        start = orphan.end()
    elif not _OPENED.search(text):
        return text
    kept: list[str] = []
    fence: re.Match[str] | None = None
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line = text[start:end]
        thought = _OPENED.match(line.lstrip()) if fence is None else None
        if thought:
            closing = re.compile(f"</{thought[1]}>", re.IGNORECASE).search(text, start)
            start = closing.end() if closing else len(text)
            continue
        mark = _FENCE.fullmatch(line.rstrip("\n"))
        if mark and fence is None:
            fence = mark
        elif mark and fence and _closes(mark, fence):
            fence = None
        kept.append(line)
        start = end
    return "".join(kept)


def _outdented(line: str, most: int) -> str:
    """A line without its indentation, or as much of it as its fence has."""
    return line[min(most, len(line) - len(line.lstrip())) :]


def _closes(mark: re.Match[str], opening: re.Match[str]) -> bool:
    return not mark[3].strip() and mark[2].startswith(opening[2])


def _is_near(mark: re.Match[str], opening: re.Match[str]) -> bool:
    """Whether a fence is indented as the one that it would close, as CommonMark has it."""
    return len(mark[1]) <= len(opening[1]) + 3
