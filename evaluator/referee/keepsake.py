"""An output that is kept over all legs, as a user would keep it, and must not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archives.evaluation import Status
from evaluator.referee.arrays import Array
from evaluator.referee.candidate_process import CandidateProcess
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.foreign_memory import Place
from evaluator.referee.session import Session

__all__ = ["Keepsake"]

HELD_ELEMENTS = 1 << 16
"""Of an output that is held so many elements are noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepsake:
    """The outputs of one call that a candidate was asked to keep.

    Attributes:
        places: Where they lie.
        parts: Which elements of each were noted.
        values: What these were.
    """

    places: Sequence[Place]
    parts: Sequence[slice]
    values: Sequence[Array]

    @classmethod
    def take(cls, session: Session, candidate: CandidateProcess, calls: int) -> Keepsake | None:
        """Let a candidate keep what some call of its last leg returned, and note parts of it.

        Args:
            session: Chooses call and parts.
            candidate: Halted after a leg.
            calls: Calls of that leg.

        Returns:
            None where the outputs are views of inputs, which change with these, or cannot be
            read, which fails after the next leg.
        """
        call = session.choose(calls)
        specs = session.opened.outputs
        places = candidate.places(call, specs)
        if places is None or any(candidate.is_input(place) for place in places):
            return None
        parts = []
        for spec in specs:
            size = min(spec.numel, HELD_ELEMENTS)
            start = session.choose(spec.numel - size + 1)
            parts.append(slice(start, start + size))
        values = candidate.snapshot(places, parts)
        if values is None:
            return None
        candidate.hold(call)
        return cls(places=places, parts=parts, values=values)

    def require_unchanged(self, candidate: CandidateProcess) -> None:
        """Fail a candidate in which a later call changed what an earlier one has returned."""
        now = candidate.snapshot(self.places, self.parts)
        if now is None or any(
            one.values.tobytes() != other.values.tobytes()
            for one, other in zip(now, self.values, strict=True)
        ):
            log = "an output changed in a later call: return a new tensor each time."
            raise CandidateFailed(Status.WRONG_VALUE, "output_reused", log)
