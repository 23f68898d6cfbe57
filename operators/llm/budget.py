"""What is cut when a prompt is too long, in which order.

A section may have a budget of its own, whatever else there is to say. Where the whole is still too
long, sections are cut in the order of `Cut`, and within one kind in the order they stand in: the
slowest inspiration goes first. What must not be cut stays, even where the whole stays too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from operators.llm.sections import BYTES_PER_TOKEN, Cut, Section, size_of

__all__ = ["cut_to", "size_of_section"]


def cut_to(sections: Sequence[Section], budget_bytes: float) -> tuple[Section, ...]:
    """Return the sections cut to a budget, or to the least where that is more.

    Args:
        sections: In the order to be read.
        budget_bytes: Bytes that they may have in all.
    """
    kept: list[Section | None] = [_within_own_budget(section) for section in sections]
    over = sum([size_of_section(section) for section in kept if section]) - budget_bytes
    if over <= 0:
        return tuple(section for section in kept if section is not None)
    order = sorted(range(len(kept)), key=lambda index: sections[index].cut)
    for index in order:
        section = kept[index]
        if over <= 0 or sections[index].cut is Cut.NEVER:
            break
        if section is not None:
            size = size_of_section(section)
            kept[index] = shorter = _cut(section, size - over)
            over -= size - (size_of_section(shorter) if shorter else 0)
    return tuple(section for section in kept if section is not None)


def size_of_section(section: Section) -> int:
    """Return the bytes that a section takes in a rendered prompt."""
    return section.size + 1


def _within_own_budget(section: Section) -> Section | None:
    if section.most_tokens is None:
        return section
    return _cut(section, section.most_tokens * BYTES_PER_TOKEN)


def _cut(section: Section, budget_bytes: float) -> Section | None:
    """Cut one section; lines at the end go first, and `kept_lines` of them stay."""
    size = size_of_section(section)
    if size <= budget_bytes or section.cut is Cut.NEVER:
        return section
    if section.kept_lines is None:
        return None
    lines = (section.prose if section.data is None else section.data).split("\n")
    left_out = section.left_out
    if left_out:
        lines.pop()
    size += len("(999 lines left out)\n")
    while size > budget_bytes and len(lines) > section.kept_lines:
        size -= size_of(lines.pop()) + 1
        left_out += 1
    if left_out == section.left_out:
        return section
    if not lines:
        return None
    text = (
        "\n".join(lines).rstrip("\n")
        + f"\n({left_out} line{'s' if left_out != 1 else ''} left out)"
    )
    if section.data is None:
        return replace(section, prose=text, left_out=left_out)
    return replace(section, data=text, left_out=left_out)
