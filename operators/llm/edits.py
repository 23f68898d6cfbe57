"""SEARCH/REPLACE blocks: found in a reply, applied to the parent's text.

    <<<<<<< SEARCH
    lines of the parent
    =======
    lines in their stead
    >>>>>>> REPLACE

A SEARCH has to name one place. It is looked for as it is, then with the white space at the ends of
lines left out, then indented by more or less as a whole; what it is replaced by is then indented
alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from operators.llm.program import Defect

__all__ = ["Edit", "Edits", "apply_edits", "find_edits"]

_SEARCH = re.compile(r"\s*<{5,9} ?SEARCH\b.*")
_DIVIDER = re.compile(r"\s*={5,9}\s*")
_REPLACE = re.compile(r"\s*>{5,9} ?REPLACE\b.*")

_NEAREST_LINES = 12
_COMPARED_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One block.

    Attributes:
        search: Lines that the parent has.
        replace: Lines in their stead; empty: the lines are removed.
    """

    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """The blocks of a reply.

    Attributes:
        edits: In the order to be applied.
        rest: The reply without them.
        defect: What is wrong with their form; None where nothing is.
    """

    edits: tuple[Edit, ...]
    rest: str
    defect: Defect | None = None


def find_edits(text: str) -> Edits | None:
    """Return the SEARCH/REPLACE blocks of a text with unified line ends; None where it has none.

    Fences around blocks do not matter; they stay in the rest.
    """
    if "SEARCH" not in text:
        return None
    lines = text.split("\n")
    edits: list[Edit] = []
    rest: list[str] = []
    at = 0
    while at < len(lines):
        if not _SEARCH.fullmatch(lines[at]):
            rest.append(lines[at])
            at += 1
            continue
        divider = _next(lines, at + 1, _DIVIDER)
        end = _next(lines, divider + 1, _REPLACE)
        begun = _next(lines, at + 1, _SEARCH)
        if end >= len(lines) or begun < end:
            lacks = "=======" if divider >= min(begun, len(lines)) else ">>>>>>> REPLACE"
            defect = Defect(
                reason="llm_edit_malformed",
                sentence=f"Block {len(edits) + 1} lacks its line {lacks!r}: expected the lines "
                "'<<<<<<< SEARCH', '=======' and '>>>>>>> REPLACE' in this order, each on its own",
            )
            return Edits(edits=tuple(edits), rest="\n".join(rest), defect=defect)
        edits.append(
            Edit(search=tuple(lines[at + 1 : divider]), replace=tuple(lines[divider + 1 : end]))
        )
        at = end + 1
    return Edits(edits=tuple(edits), rest="\n".join(rest)) if edits else None


def apply_edits(source: str, edits: Sequence[Edit]) -> str | Defect:
    """Return the source with the edits applied in order, each to what the one before left.

    Args:
        source: The parent's text, with unified line ends.
        edits: The blocks.

    Returns:
        The changed text, or what is wrong: "llm_edit_mismatch" where a SEARCH is nowhere,
        "llm_edit_ambiguous" where it is at several places.
    """
    lines = source.split("\n")
    for number, edit in enumerate(edits, start=1):
        place = f"Block {number} of {len(edits)}"
        if not any(line.strip() for line in edit.search):
            return Defect(
                reason="llm_edit_mismatch",
                sentence=f"{place} has an empty SEARCH: expected the lines of the parent that are "
                "to be replaced",
            )
        starts, shift = _places(lines, edit.search)
        if len(starts) > 1:
            where = ", ".join(str(start + 1) for start in starts[:5])
            return Defect(
                reason="llm_edit_ambiguous",
                sentence=f"{place}: its SEARCH is found {len(starts)} times (at lines {where}), "
                "expected once: add lines before or after it",
            )
        if not starts:
            return Defect(reason="llm_edit_mismatch", sentence=_mismatch(place, lines, edit))
        replacement = [shift.applied(line) for line in edit.replace]
        lines[starts[0] : starts[0] + len(edit.search)] = replacement
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shift:
    """A change of indentation, from one margin to another."""

    old: str = ""
    new: str = ""

    def applied(self, line: str) -> str:
        if self.old == self.new or not line.strip():
            return line
        if line.startswith(self.old):
            return self.new + line[len(self.old) :]
        rest = line.lstrip()
        width = max(0, len(line) - len(rest) + len(self.new) - len(self.old))
        return (self.new + " " * width)[:width] + rest


def _places(lines: Sequence[str], search: Sequence[str]) -> tuple[list[int], _Shift]:
    """Where a SEARCH is found, the strictest way that finds it, and how it has to be shifted."""
    starts = list(_runs(lines, search))
    if starts:
        return starts, _Shift()
    starts = list(_runs([line.rstrip() for line in lines], [line.rstrip() for line in search]))
    if starts:
        return starts, _Shift()
    bare = [line.strip() for line in search]
    margin = _margin(search)
    starts = [
        start
        for start in _runs([line.strip() for line in lines], bare)
        if _is_shifted(lines[start : start + len(search)], search, margin)
    ]
    if not starts:
        return [], _Shift()
    found = lines[starts[0] : starts[0] + len(search)]
    return starts, _Shift(old=margin, new=_margin(found))


def _runs(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[int]:
    """Starts of the runs of lines that equal the wanted ones; runs do not overlap."""
    first, count = wanted[0], len(wanted)
    start = 0
    while start <= len(lines) - count:
        if lines[start] == first and all(lines[start + n] == wanted[n] for n in range(1, count)):
            yield start
            start += count
        else:
            start += 1


def _is_shifted(found: Sequence[str], search: Sequence[str], margin: str) -> bool:
    new = _margin(found)
    return all(
        not line.strip() or line.rstrip() == new + wanted[len(margin) :].rstrip()
        for line, wanted in zip(found, search, strict=True)
    )


def _margin(lines: Sequence[str]) -> str:
    """The indentation that all lines which say something have in common."""
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    low, high = min(margins), max(margins)
    common = 0
    while common < len(low) and low[common] == high[common]:
        common += 1
    return low[:common]


def _mismatch(place: str, lines: Sequence[str], edit: Edit) -> str:
    missing = next(line.strip() for line in edit.search if line.strip())
    start = _nearest(lines, edit.search)
    if start is None:
        return f"{place}: its SEARCH, which begins with {missing[:100]!r}, is not in the parent"
    end = min(start + min(len(edit.search), _NEAREST_LINES), len(lines))
    nearest = "\n".join(line[:_COMPARED_CHARACTERS] for line in lines[start:end])
    return (
        f"{place}: its SEARCH is not in the parent, expected its lines word for word. The nearest "
        f"lines there ({start + 1} to {end}) are\n{nearest}"
    )


def _nearest(lines: Sequence[str], search: Sequence[str]) -> int | None:
    """Where most lines of a SEARCH stand in their order, or else one that resembles its first."""
    bare = [line.strip() for line in lines]
    wanted = [line.strip() for line in search]
    wanted_at = {n: text for n, text in enumerate(wanted) if text}
    best, most = None, 0
    for start in range(max(1, len(bare) - len(wanted) + 1)):
        count = sum(
            bare[start + n] == text for n, text in wanted_at.items() if start + n < len(bare)
        )
        if count > most:
            best, most = start, count
    if best is not None:
        return best
    first, text = next(iter(wanted_at.items()))
    clipped = [line[:_COMPARED_CHARACTERS] for line in bare]
    near = get_close_matches(text[:_COMPARED_CHARACTERS], clipped, 1, 0.6)
    return max(0, clipped.index(near[0]) - first) if near else None


def _next(lines: Sequence[str], start: int, mark: re.Pattern[str]) -> int:
    """The next line that is a mark; past the end where there is none."""
    return next((n for n in range(start, len(lines)) if mark.fullmatch(lines[n])), len(lines))
