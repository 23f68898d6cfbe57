"""What runs inside a Ray actor: a referee whose errors travel as values.

Ray wraps exceptions in types of its own; a pair of kind and message crosses unchanged.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from archives.evaluation import Evaluation
from archives.rates import Rates
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evaluator.local import capacity_of
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee, new_referee
from problems.errors import EvaluatorError, ProblemError
from problems.graph import OperatorGraph
from problems.lifted import Lifted
from problems.problem import Problem

__all__ = ["Answer", "RefereeActor", "unpack"]

T = TypeVar("T")
Answer = tuple[str, T | str]
"""("ok", value), ("problem", message) or ("evaluator", message)."""


class RefereeActor:
    """One referee on one device; methods run in threads of the actor."""

    def __init__(
        self,
        device: str = "cpu",
        rates: Rates | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Find the device; a GPU is the one that Ray lets this actor see.

        Args:
            device: "cpu" or "cuda".
            rates: What it was measured to reach before; None: `start` measures that.
            deadlines: How long each step of a candidate may take; None: as usual there.
        """
        self._device = device
        self._deadlines = deadlines
        self._rates = rates
        self._started: Referee | None = None
        self._starting = threading.Lock()

    @property
    def _referee(self) -> Referee:
        # Whatever was asked of an actor that died comes to its successor at once, in threads.
        with self._starting:
            if self._started is None:
                referee = new_referee(self._device, deadlines=self._deadlines)
                if self._rates is not None:
                    referee.calibrate(self._rates)
                self._started = referee
            return self._started

    def start(self, *, calibrate: bool) -> Answer[Capacity]:
        """Start the referee and tell what it can take."""
        return _answer(lambda: capacity_of(self._referee, calibrate=calibrate, known=self._rates))

    def host(self) -> str:
        """Return the name of the machine that the actor runs on."""
        return platform.node()

    def pid(self) -> int:
        """Return the process that the actor runs in."""
        return os.getpid()

    def graph(self, problem: Problem) -> Answer[OperatorGraph]:
        """Trace a problem's reference."""
        return _answer(lambda: self._referee.graph(problem))

    def lint(self, problem: Problem) -> Answer[Lint]:
        """Look for what makes a problem say little about a kernel."""
        return _answer(lambda: self._referee.lint(problem))

    def lift(self, problem: Problem, option_sets: Sequence[str]) -> Answer[tuple[Lifted, ...]]:
        """Let Inductor compile a problem's reference."""
        return _answer(lambda: self._referee.lift(problem, option_sets))

    def evaluate(self, request: EvaluationRequest) -> Answer[Evaluation]:
        """Judge a candidate."""
        return _answer(lambda: self._referee.evaluate(request))

    def close(self) -> None:
        """End every process."""
        if self._started is not None:
            self._started.close()


def _answer(work: Callable[[], T]) -> Answer[T]:
    try:
        return ("ok", work())
    except ProblemError as error:
        return ("problem", str(error))
    except EvaluatorError as error:
        return ("evaluator", str(error))


def unpack(answer: Answer[T]) -> T:
    """Return the value of an answer.

    Raises:
        ProblemError: The problem itself failed.
        EvaluatorError: The evaluator failed.
    """
    kind, value = answer
    if kind == "problem":
        raise ProblemError(str(value))
    if kind == "evaluator":
        raise EvaluatorError(str(value))
    assert not isinstance(value, str)
    return value
