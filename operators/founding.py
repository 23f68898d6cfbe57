"""Founding: operators that can tell how many programs they have to start a problem from.

A search that is short takes each of these once before it varies anything: to draw them at random
would try one twice and leave another out.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from operators.operator import OperatorContext
from operators.settings import Setting

__all__ = ["REPEATS", "Founding"]

REPEATS = Setting(name="repeats", default=1, least=0, most=1)
"""Whether other points of known programs are proposed where there is no new one: 1 or 0."""


@runtime_checkable
class Founding(Protocol):
    """An operator without parents whose programs for a problem can be counted."""

    def num_programs(self, context: OperatorContext) -> int:
        """Return how many distinct programs it has for a problem, known ones included."""
        ...
