"""Templates: the parts of a prompt that are the same for every problem, in `templates/*.md`.

A file holds sections in the form of `operators.llm.sections`, or plain text for the system message.
Whoever changes one changes `VERSION`, which every prompt carries: calls of two versions are told
apart in the store.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from operators.llm.sections import Section, parse

__all__ = ["VERSION", "system_text", "template"]

VERSION = 1


@cache
def system_text() -> str:
    """Return what the model is told of its role, with the version of the templates."""
    return f"{_read('system').strip()}\n\nPrompt version {VERSION}."


@cache
def template(name: str) -> tuple[Section, ...]:
    """Return the sections of a template.

    Args:
        name: Name of its file, without ".md".

    Raises:
        FileNotFoundError: There is no such template.
        ValueError: The file does not hold sections.
    """
    return parse(_read(name))


def _read(name: str) -> str:
    path = files("operators.llm") / "templates" / f"{name}.md"
    return path.read_text(encoding="utf-8")
