"""What an island pays attention to: five directions, each a short brief of its own.

One model with one brief proposes the same few changes again and again; islands with other briefs
look elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from operators.llm.sections import Section
from operators.llm.template import template

__all__ = ["FOCUSES", "focus_sections"]

FOCUSES: Mapping[str, str] = MappingProxyType(
    {
        "fusion": "fewer passes over memory",
        "memory": "how bytes move",
        "parallel": "how the work is split",
        "precision": "what accuracy costs",
        "algorithm": "less to compute",
    }
)
"""What each is about, in a few words for people; its brief is the template `focus_NAME`."""


def focus_sections(focus: str) -> tuple[Section, ...]:
    """Return the brief of a focus; nothing for "".

    Args:
        focus: A key of `FOCUSES`, or "".

    Raises:
        ValueError: There is no such focus.
    """
    if not focus:
        return ()
    if focus not in FOCUSES:
        known = ", ".join(FOCUSES)
        raise ValueError(f"there is no focus {focus!r}: expected one of {known}, or ''")
    return template(f"focus_{focus}")
