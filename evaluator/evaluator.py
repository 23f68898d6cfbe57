"""The seam between the engine and whatever measures candidates.

`evaluator.pool.Pool` is the real one (Ray actors with a referee each); tests and replays bring
their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.evaluation import DeviceFingerprint, Evaluation
from archives.rates import Rates
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["Capacity", "EvaluationRequest", "Evaluator", "Lint", "Purpose"]


class Purpose(StrEnum):
    """How much certainty an evaluation is to buy."""

    SEARCH = "search"
    """One process, few blocks: ranks candidates during the search."""
    VERIFY = "verify"
    """Fresh processes, new secret inputs, many blocks: the number that is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """One candidate to be judged.

    Attributes:
        problem: The problem it is for.
        candidate: The program.
        configurations: Points of its space to try; empty: only the one in its source.
        purpose: How much certainty is wanted.
    """

    problem: Problem
    candidate: Candidate
    configurations: tuple[Configuration, ...] = ()
    purpose: Purpose = Purpose.SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What an evaluator can take at a time.

    Attributes:
        device: Where it measures.
        in_flight: Requests worth having outstanding, so that no device waits.
        noise_floor: Relative speedup below which nothing is claimed, such as 0.015.
        memory_bytes: Memory that one problem may take, tensors of reference and candidate.
        referee_version: Version of the measuring protocol.
        noisy: Whether the host was too busy to be calibrated: the noise floor is assumed then.
        rates: What the device reaches; None: not measured.
    """

    device: DeviceFingerprint
    in_flight: int
    noise_floor: float
    memory_bytes: int
    referee_version: str = ""
    noisy: bool = False
    rates: Rates | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint:
    """What was seen of a problem.

    Attributes:
        reason: Why it says little about a kernel; None: it is sound.
        remark: What is worth knowing all the same: that KernelBench's tolerance accepts zeros; "".
    """

    reason: str | None = None
    remark: str = ""


class Evaluator(Protocol):
    """Judges candidates. All methods may be called concurrently from one event loop."""

    async def start(self) -> Capacity:
        """Start what is needed and tell what can be taken.

        Raises:
            EvaluatorError: It cannot start here; the message says what is missing.
        """
        ...

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Trace a problem's reference on meta tensors, in a child process.

        Raises:
            ProblemError: The problem does not load, or cannot be traced.
        """
        ...

    async def lint(self, problem: Problem) -> Lint:
        """Look for what makes a problem say little about a kernel; it is run in a process.

        Raises:
            ProblemError: The problem does not load or run.
            EvaluatorError: The evaluator failed.
        """
        ...

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Let Inductor compile a problem's reference under each set of options.

        Args:
            problem: The problem.
            option_sets: Names of the sets.

        Returns:
            One for each set, those that failed with a reason.

        Raises:
            EvaluatorError: The evaluator failed.
        """
        ...

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Judge a candidate. Whatever the candidate does, the verdict is a value.

        Raises:
            ProblemError: The problem itself does not run, or does not fit in memory.
            EvaluatorError: The evaluator failed; nothing is known about the candidate.
        """
        ...

    async def close(self) -> None:
        """Stop every process that was started."""
        ...
