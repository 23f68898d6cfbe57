"""The half of a referee that depends on what it measures on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Grapher", "Station"]


class Grapher(Protocol):
    """Traces problems."""

    def graph(self, problem: Problem) -> OperatorGraph:
        """Trace a problem's reference; see `Referee.graph`."""
        ...


class Station(Protocol):
    """A device with the problems that are open on it; see `evaluator.referee.cpu`.

    Attributes:
        spawner: Forks its workers.
        referee_version: Version of its protocol.
        in_flight: Requests worth having outstanding.
    """

    spawner: Spawner
    referee_version: str
    in_flight: int

    @property
    def device(self) -> DeviceFingerprint:
        """What it measures on."""
        ...

    @property
    def memory_bytes(self) -> int:
        """Memory that one problem may take."""
        ...

    @property
    def trace_plan(self) -> WorkerPlan:
        """How a worker that traces is to run."""
        ...

    @property
    def lift_plan(self) -> WorkerPlan:
        """How a worker that lets Inductor compile is to run."""
        ...

    def lifting(self, num_bytes: int) -> AbstractContextManager[None]:
        """Hold the device's memory for a worker that lets Inductor compile, for the block."""
        ...

    def sharing(self) -> AbstractContextManager[None]:
        """Use the device beside others for the block, while nobody times."""
        ...

    @property
    def problem_s(self) -> float:
        """Seconds that a step of a problem's own code may take."""
        ...

    def caller(self) -> AbstractContextManager[None]:
        """Let the calling thread run as one that judges, for the block."""
        ...

    def judge(
        self, grapher: Grapher, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        """Take a screened candidate up the ladder; see `ladder.climb`.

        Raises:
            CandidateFailed: A rung was not passed.
            ProblemError: The problem cannot be opened.
            EvaluatorError: A trusted process failed.
        """
        ...

    def calibrate(self, known: Rates | None = None) -> Rates | None:
        """Measure what the device reaches, and state each verdict's share of it from then on.

        Args:
            known: What was measured on it before; then nothing is measured.

        Returns:
            None where it could not be measured.

        Raises:
            EvaluatorError: No worker could be started.
        """
        ...

    def drop(self, problem: Problem) -> None:
        """Close a problem whose reference worker has failed."""
        ...

    def close(self) -> None:
        """Close every problem."""
        ...
