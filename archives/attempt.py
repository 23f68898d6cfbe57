"""An attempt: one proposal of one operator, from proposal to verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Attempt", "AttemptState", "Slot"]


class AttemptState(StrEnum):
    """How far an attempt has come."""

    PROPOSED = "proposed"
    """The proposal is recorded; its evaluation is outstanding."""
    EVALUATED = "evaluated"
    """The verdict is recorded; it has not been offered to the grid yet."""
    ARCHIVED = "archived"
    """Offered to the grid: it became an elite there, or did not."""
    FAILED = "failed"
    """No program came of it (`reason`), or the verdict was not `OK`."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Slot:
    """The place of an attempt in the run: identifies it, and orders insertion.

    Attributes:
        problem: Key of the problem.
        generation: From 0 (seeds).
        island: From 0.
        index: Number within the island's generation, from 0.
    """

    problem: str
    generation: int
    island: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One proposal.

    Attributes:
        slot: Its place; unique in a run.
        operator: Name of the operator, such as "tune"; "migrate" for a migrant.
        parents: Slots of the attempts it descends from, in the operator's order.
        state: How far it has come.
        reason: Why there is no program or no fitness, a stable code; else "".
        candidate: Id of the proposed candidate, or None.
        result: Id of the candidate that was measured: `candidate` with the winning
            configuration written in; or None.
        duplicate_of: Slot of the earlier attempt with the same candidate, or None.
        note: What the operator changed, one line for people.
        cost_s: Seconds of proposing.
        cost_usd: Money for proposing.
        model: Language model that was asked; "" where none was.
    """

    slot: Slot
    operator: str
    parents: tuple[Slot, ...] = ()
    state: AttemptState = AttemptState.PROPOSED
    reason: str = ""
    candidate: str | None = None
    result: str | None = None
    duplicate_of: Slot | None = None
    note: str = ""
    cost_s: float = 0.0
    cost_usd: float = 0.0
    model: str = ""
