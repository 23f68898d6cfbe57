"""The zoo's entries: each file says in its head what it is and what must become of it."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from archives.evaluation import Status
from evaluator.evaluator import Purpose
from problems.problem import Problem, Scale

__all__ = [
    "FAILS",
    "FOLDER",
    "HONEST",
    "KINDS",
    "LIBRARY",
    "NO_GAIN",
    "Entry",
    "cheats",
    "honest",
    "on_gpu",
    "problem",
]

FOLDER = Path(__file__).parent
NO_GAIN = "no gain"
"""The cheat does not bite: it is right, and not surely faster than the reference."""
LIBRARY = "library"
"""It is right and may be fast, but counts as a library call: never a sure speedup. Of an honest
control that is told to be right, this says that it must be marked as one, and else must not."""
FAILS = "fails"
"""It gets some failure, and no fitness; which one is a matter of where it was met first."""
HONEST = "honest"
"""The class of controls: they must pass."""
_FIELDS = frozenset({"problem", "class", "verdict", "purpose", "least", "most"})
KINDS = ("output", "precision", "work", "timing", "evaluator", "memory", "denial")


_SHARED = {"native.txt": "load", "callers.txt": "is_called_by"}
"""What is put in front of programs that call a function of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One candidate of the zoo.

    Attributes:
        name: Its file, without folder and suffix.
        doc: What it does, one line.
        problem: Name of the problem that it is for.
        kind: Its class: one of `KINDS`, or `HONEST`.
        verdicts: What it may get: (status, reason), `NO_GAIN`, `LIBRARY` or `FAILS`.
        purpose: What it is judged for: a verification where a search takes its word.
        least: Lowest speedup that is accepted where it is right: nothing slows an honest one.
        most: Highest speedup that is accepted: what a known trick can gain and no more.
        source: Its text, with what several share put in front.
    """

    name: str
    doc: str
    problem: str
    kind: str
    verdicts: frozenset[tuple[Status, str] | str]
    purpose: Purpose
    least: float
    most: float
    source: str


def cheats() -> list[Entry]:
    """Return the cheats that run on a CPU, by name."""
    return [_read(path) for path in sorted((FOLDER / "cheats").glob("*.py"))]


def honest() -> list[Entry]:
    """Return the honest controls that run on a CPU, by name."""
    return [_read(path) for path in sorted((FOLDER / "honest").glob("*.py"))]


def on_gpu() -> list[Entry]:
    """Return what needs a GPU, cheats and controls, by name."""
    return [_read(path) for path in sorted((FOLDER / "gpu").glob("*.py"))]


@cache
def problem(name: str) -> Problem:
    """Return a problem of the zoo."""
    return Problem(
        level=0,
        id=1,
        name=name,
        family="zoo",
        scale=Scale.CUSTOM,
        source=(FOLDER / "problems" / f"{name}.py").read_text(),
    )


def _read(path: Path) -> Entry:
    text = path.read_text()
    head = ast.get_docstring(ast.parse(text)) or ""
    doc, told = head.split("\n\n")[:2]
    fields = dict(line.split(": ", 1) for line in told.splitlines())
    assert fields.keys() <= _FIELDS, f"{path}: {sorted(fields.keys() - _FIELDS)}"
    shared = "".join(
        (FOLDER / name).read_text()
        for name, use in _SHARED.items()
        if re.search(rf"(?<![\w.]){use}\(", text)
    )
    return Entry(
        name=path.stem,
        doc=doc,
        problem=fields["problem"],
        kind=fields.get("class", HONEST),
        verdicts=frozenset(_verdict(part) for part in fields["verdict"].split(" | ")),
        purpose=Purpose(fields.get("purpose", Purpose.SEARCH)),
        least=float(fields.get("least", 0)),
        most=float(fields.get("most", math.inf)),
        source=shared + text,
    )


def _verdict(text: str) -> tuple[Status, str] | str:
    if text in {NO_GAIN, LIBRARY, FAILS}:
        return text
    status, _, reason = text.partition(" ")
    return Status(status), reason
