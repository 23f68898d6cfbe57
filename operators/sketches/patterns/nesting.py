"""Reductions of everything as reductions of rows first, where others are of rows."""

from __future__ import annotations

from collections.abc import Sequence

from operators.sketches.patterns.expressions import Terms

__all__ = ["nested"]

_IN_PARTS = frozenset({"sum", "max", "min", "peak"})
"""Kinds of reductions that may be taken of parts first."""


def nested(terms: Terms, roots: Sequence[int], every: frozenset[int]) -> list[int]:
    """Let reductions over all axes go over rows first, where one over rows alone is needed too.

    Args:
        terms: All terms; new ones are added.
        roots: Terms that are wanted.
        every: All axes.

    Returns:
        Terms of the same values, in the same order. So the sum of a softmax times a target is a
        sum of the rows' sums.
    """
    needed = terms.needed(roots)
    reductions = [n for n in needed if terms[n].op == "reduce"]
    whole = [n for n in reductions if terms[terms[n].args[0]].axes == every]
    rows = {terms[n].axes for n in whole} - {frozenset()}
    total = [n for n in whole if not terms[n].axes and terms[n].payload in _IN_PARTS]
    if len(rows) != 1 or not total:
        return list(roots)
    (kept,) = rows
    replacements: dict[int, int] = {}
    for number in total:
        kind = str(terms[number].payload)
        part = terms.reduce(kind, terms.replaced(terms[number].args[0], replacements), every - kept)
        replacements[number] = terms.reduce(kind, part, kept)
    return [terms.replaced(root, replacements) for root in roots]
