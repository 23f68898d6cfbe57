"""The two parts of a reply that was cut off, put together.

Models are asked to go on where they stopped. Some repeat the line that they were in, open their
fence again, begin a new line, or start all over. So there are several ways to join, and whoever
reads the reply takes the first that can be read.
"""

from __future__ import annotations

import re

from operators.llm.fences import Fences, unified, without_thoughts

__all__ = ["joinings"]

_REOPENED = re.compile(r"\A(?:[^\n]*\n){0,3}?[ \t]*(?:`{3,}|~{3,})[ \t]*[A-Za-z][^\n]*\n")

_MAX_REPEATED_LINES = 40
_LEAST_REPEATED = 4
_LEAST_REPEATED_WITHOUT_INDENTATION = 8
"""Characters; fewer agree by chance."""


def joinings(first: str, second: str) -> tuple[str, ...]:
    """Return the ways to join two parts of a reply, the likeliest first.

    Args:
        first: What came before the cut.
        second: What came after it.
    """
    first, second = unified(first), without_thoughts(unified(second))
    blocks = Fences(first).blocks
    reopened = _REOPENED.match(second) if blocks and not blocks[-1].closed else None
    parts = [second[reopened.end() :], second] if reopened else [second]
    ways = []
    for part in parts:
        new = part[_repeated(first, part) :]
        ways += [first + new, f"{first}\n{new}"]
    return tuple(dict.fromkeys([*ways, second]))


def _repeated(first: str, second: str) -> int:
    """How many characters at the start of the second part repeat the first one's last lines."""
    lines = first.split("\n")[-_MAX_REPEATED_LINES:]
    for start in range(len(lines)):
        tail = "\n".join(lines[start:])
        bare = tail.lstrip()
        if not bare:
            continue
        if len(tail) >= _LEAST_REPEATED and second.startswith(tail):
            return len(tail)
        if len(bare) >= _LEAST_REPEATED_WITHOUT_INDENTATION and second.startswith(bare):
            return len(bare)
    return 0
