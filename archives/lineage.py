"""Lineage: where an attempt came from, as pure functions over recorded attempts.

A migrant is the same candidate on another island: it is shown, but adds no depth and no gain.
A duplicate has parents of its own, and names the attempt that had its candidate first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from archives.attempt import Attempt, Slot
from archives.records import MIGRATE

__all__ = ["Step", "ancestors", "attempts_of", "tree"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One attempt of a lineage.

    Attributes:
        attempt: The attempt.
        depth: Length of the longest line of varied ancestors: 0 for a seed or sketch.
        speedup: Speedup of its candidate; None: it has none.
        gain: `speedup` over the best parent's, None where either is missing; a child twice as
            fast as its best parent has 2.0.
    """

    attempt: Attempt
    depth: int
    speedup: float | None
    gain: float | None


def attempts_of(attempts: Iterable[Attempt], candidate_id: str) -> tuple[Attempt, ...]:
    """Return the attempts that proposed a candidate or had it as result, by slot.

    The first one is where the candidate comes from; migrants and duplicates follow.
    """
    found = [a for a in attempts if candidate_id in (a.candidate, a.result)]
    return tuple(sorted(found, key=lambda attempt: attempt.slot))


def ancestors(
    attempts: Iterable[Attempt], slot: Slot, speedups: Mapping[str, float]
) -> tuple[Step, ...]:
    """Return an attempt and all its ancestors, each once, parents before children.

    Args:
        attempts: The attempts of the problem, in any order.
        slot: The attempt to start from.
        speedups: Speedup by candidate id, as `Store.speedups` gives it.

    Returns:
        The steps in slot order within the constraint that parents come first; the last one is
        the attempt itself.

    Raises:
        KeyError: There is no attempt at `slot`.
    """
    by_slot = {attempt.slot: attempt for attempt in attempts}
    line = _line(by_slot, slot)
    steps: dict[Slot, Step] = {}
    for place in line:
        attempt = by_slot[place]
        parents = [steps[parent] for parent in attempt.parents if parent in steps]
        speedup = _speedup(attempt, speedups)
        best = max((p.speedup for p in parents if p.speedup is not None), default=None)
        varied = attempt.operator != MIGRATE
        steps[place] = Step(
            attempt=attempt,
            depth=max((parent.depth for parent in parents), default=-varied) + varied,
            speedup=speedup,
            gain=None if speedup is None or best is None else speedup / best,
        )
    return tuple(steps[place] for place in line)


def tree(steps: Iterable[Step]) -> tuple[tuple[str, Step], ...]:
    """Return a lineage as the lines of a tree, the youngest first.

    Args:
        steps: What `ancestors` returned.

    Returns:
        For each line the branches to draw before it, such as "│  └─ ", and the step. An ancestor
        of several children is drawn in full under the first one only.
    """
    ordered = tuple(steps)
    if not ordered:
        return ()
    by_slot = {step.attempt.slot: step for step in ordered}
    lines: list[tuple[str, Step]] = []
    drawn: set[Slot] = set()
    waiting = [("", "", ordered[-1])]
    while waiting:
        branch, indent, step = waiting.pop()
        lines.append((branch, step))
        if step.attempt.slot in drawn:
            continue
        drawn.add(step.attempt.slot)
        parents = [by_slot[parent] for parent in step.attempt.parents if parent in by_slot]
        for number, parent in enumerate(reversed(parents)):
            is_last = number == 0
            corner, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            waiting.append((indent + corner, indent + below, parent))
    return tuple(lines)


def _line(by_slot: Mapping[Slot, Attempt], slot: Slot) -> list[Slot]:
    """The slots of an attempt and its ancestors; a parent is always of an earlier slot in time."""
    start = by_slot[slot]
    seen = {start.slot}
    waiting = [start]
    while waiting:
        for parent in waiting.pop().parents:
            if parent in by_slot and parent not in seen:
                seen.add(parent)
                waiting.append(by_slot[parent])
    return _parents_first(by_slot, seen)


def _parents_first(by_slot: Mapping[Slot, Attempt], slots: set[Slot]) -> list[Slot]:
    """Slots ordered so that parents come first, and by slot where that leaves a choice."""
    order: list[Slot] = []
    placed: set[Slot] = set()
    for slot in sorted(slots):
        stack = [slot]
        while stack:
            missing = [p for p in by_slot[stack[-1]].parents if p in slots and p not in placed]
            if missing:
                stack.append(missing[0])
                continue
            ready = stack.pop()
            if ready not in placed:
                placed.add(ready)
                order.append(ready)
    return order


def _speedup(attempt: Attempt, speedups: Mapping[str, float]) -> float | None:
    held = attempt.result or attempt.candidate
    return None if held is None else speedups.get(held)
