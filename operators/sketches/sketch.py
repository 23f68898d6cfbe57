"""What a sketch is: a parameterised schedule that writes itself out as a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Sketch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A parameterised schedule for a pattern of the operator graph.

    Attributes:
        name: Its name in notes and reports, such as "row-sweep".
        device: "cpu" or "cuda".
        write: Returns the text of one stand-alone module with `TUNE_PARAMS`, `CONFIG`,
            and `ModelNew`; None where the graph does not hold the pattern. The same
            problem and graph give the same text.
    """

    name: str
    device: str
    write: Callable[[Problem, OperatorGraph], str | None]
