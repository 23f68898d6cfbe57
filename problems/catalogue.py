"""The bundled catalogue: KernelBench's level 1 as data, in `level1/*.toml`.

Names, sizes and arguments are the benchmark's facts; the wording and the code are our own. Each
file holds one family; its `[defaults]` are merged into every problem that does not state the
field itself. Scales:

- `official`: KernelBench's sizes, version 0.2.
- `small`: only batch, spatial and matrix sizes are reduced, the batch first, until inputs,
  weights and outputs take at most 16 MB and one call takes about 1 to 5 ms on one CPU core.
  Channels, kernels, strides, paddings, dilations and groups stay; what is long stays long, what
  is odd stays odd. `benchmarks/small_scale_times.py` prints how well this holds.
- `tiny`: at most about 20,000 elements, channels reduced too, for interpreters.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from problems.entry import DRAWS, Entry, InputEntry
from problems.errors import ConfigError, ProblemError
from problems.problem import Domain, Problem, Scale
from problems.render import render

__all__ = ["load_level", "parse_ids"]

_LEVELS = (1,)


def load_level(level: int, scale: Scale, ids: Sequence[int] | None = None) -> tuple[Problem, ...]:
    """Return the problems of a bundled level.

    Args:
        level: KernelBench level; the catalogue holds level 1.
        scale: `official`, `small` or `tiny`.
        ids: Which problems, in this order; None: all, by id.

    Raises:
        ProblemError: There is no such level, scale or id.
    """
    if level not in _LEVELS:
        raise ProblemError(
            f"the bundled catalogue holds level 1 only, got level {level}: for other levels give "
            "a folder in KernelBench's layout"
        )
    entries = _entries(level)
    chosen = tuple(entries) if ids is None else tuple(ids)
    unknown = [number for number in chosen if number not in entries]
    if unknown:
        raise ProblemError(
            f"level {level} has no problem {unknown[0]}: its ids are {min(entries)} to "
            f"{max(entries)}"
        )
    return tuple(_problem(level, *entries[number], scale) for number in chosen)


def parse_ids(text: str) -> tuple[int, ...]:
    """Return the problem ids that a text such as "1,19-25" names, in order, each once.

    Raises:
        ConfigError: The text is not a list of numbers and ranges.
    """
    ids: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        bounds = (first, last) if dash else (first, first)
        if not all(bound.isascii() and bound.isdigit() for bound in bounds):
            raise ConfigError(
                f"problems {text!r}: cannot read {part.strip()!r}, expected numbers and ranges "
                "such as 1,19-25"
            )
        low, high = int(bounds[0]), int(bounds[1])
        if low > high or low == 0:
            raise ConfigError(
                f"problems {text!r}: {part.strip()!r} names nothing, expected ids from 1 with the "
                "smaller one first, such as 19-25"
            )
        ids.update(dict.fromkeys(range(low, high + 1)))
    return tuple(ids)


@cache
def _entries(level: int) -> dict[int, tuple[Entry, str]]:
    """Read a level's files: (entry, family) by id, in the order of ids."""
    found: dict[int, tuple[Entry, str]] = {}
    folder = files("problems") / f"level{level}"
    for path in folder.iterdir():
        if not path.name.endswith(".toml"):
            continue
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        defaults = document.get("defaults", {})
        for table in document["problem"]:
            entry = Entry.of({**defaults, **table}, path.name)
            if entry.id in found:
                raise ProblemError(f"{path.name}: problem {entry.id} occurs twice")
            found[entry.id] = (entry, path.name.removesuffix(".toml"))
    return dict(sorted(found.items()))


def _problem(level: int, entry: Entry, family: str, scale: Scale) -> Problem:
    return Problem(
        level=level,
        id=entry.id,
        name=entry.name,
        family=family,
        scale=scale,
        source=render(entry, scale),
        domains=tuple(_domain(each, entry, scale) for each in entry.inputs),
        notes=entry.notes,
        degenerate=entry.degenerate.get(scale.value),
        loose=entry.loose.get(scale.value),
    )


def _domain(each: InputEntry, entry: Entry, scale: Scale) -> Domain:
    upper = entry.sizes_at(scale)[each.upper] if each.upper else None
    assert upper is None or isinstance(upper, int), "an index is bounded by a plain size"
    return Domain(kind=DRAWS[each.draw].domain, upper=upper)
