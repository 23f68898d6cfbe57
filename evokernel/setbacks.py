"""Setbacks: the failed evaluations of one problem, counted by what they teach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from archives.evaluation import Status
from evokernel.register import Child
from operators.llm.lessons import Setback, telling_line

__all__ = ["Setbacks"]

_MOST_KINDS = 256
"""Kinds of failure that are told apart; each compiler message is one of its own."""

_Kind = tuple[Status, str, str]


class Setbacks:
    """Failures of finished generations, by status, reason and the line that tells most."""

    def __init__(self) -> None:
        """Start without any."""
        self._kinds: dict[_Kind, Setback] = {}

    def add(self, children: Sequence[Child]) -> None:
        """Count the failures of a finished generation; duplicates are not counted again."""
        for child in children:
            evaluation = child.evaluation
            if evaluation is None or child.attempt.duplicate_of is not None:
                continue
            if evaluation.status in (Status.OK, Status.UNSTABLE):
                continue
            line = telling_line(evaluation.log)
            kind = (evaluation.status, evaluation.reason, line)
            if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
                kind = (evaluation.status, evaluation.reason, "")
            known = self._kinds.get(kind)
            self._kinds[kind] = (
                replace(known, count=known.count + 1)
                if known
                else Setback(status=kind[0], reason=kind[1], log=kind[2])
            )

    def all(self) -> Iterator[Setback]:
        """Return each kind with how often it was met, in the order first met."""
        return iter(self._kinds.values())
