"""Answers for `ablation.py`: an evaluator that measures nothing and reads verdicts from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from archives.candidate import Candidate
from archives.configuration import Configuration, read_configuration
from archives.evaluation import ConfigurationResult, Evaluation
from benchmarks.ablation_tables import Table
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evokernel.search import at_point
from problems.errors import EvaluatorError
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One evaluation.

    Attributes:
        points: Points that it tried.
        candidate: Id of the one that was best; "" where none is known.
        verdict: The verdict on it.
    """

    points: int
    candidate: str = ""
    verdict: Evaluation | None = None


@dataclass(slots=True, kw_only=True)
class TableEvaluator:
    """Answers from a table; implements `evaluator.evaluator.Evaluator`.

    Attributes:
        table: The table.
        seed: Which of several measurements of a point are seen.
        reference_ms: Time of the reference that all others are stated with: clocks that drift from
            one hour to the next have no part in them.
        tried: What was asked for, in order.
        unknown: Points of it that the table does not have.
    """

    table: Table
    seed: int
    reference_ms: float
    tried: list[Try] = field(default_factory=list)
    unknown: int = 0

    async def start(self) -> Capacity:
        """Return the capacity of the device that the verdicts come from."""
        world = self.table.world
        return Capacity(
            device=world.device,
            in_flight=_IN_FLIGHT,
            noise_floor=world.noise_floor,
            memory_bytes=0,
            referee_version=world.referee_version,
        )

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Return an empty graph: the programs are written already."""
        return OperatorGraph(inputs=(), parameters={}, buffers={}, nodes=(), outputs=())

    async def lint(self, problem: Problem) -> Lint:
        """Return nothing: bundled problems were looked at."""
        return Lint()

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Return nothing: what a compiler writes is no part of the tables."""
        return ()

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict on the best of the points that are asked for.

        Raises:
            EvaluatorError: The table has none of them; the search paid all the same.
        """
        source = request.candidate.source
        points = request.configurations or (read_configuration(source),)
        known: list[tuple[Configuration, str, Evaluation]] = []
        for point in points:
            candidate = Candidate.of(request.problem.key, at_point(source, point or None))
            found = self.table.verdict(candidate.id, self.seed)
            if found is not None:
                known.append((point, candidate.id, self._stated(found)))
        self.unknown += len(points) - len(known)
        if not known:
            self.tried.append(Try(points=len(points)))
            raise EvaluatorError(f"no verdict on {request.candidate.id[:12]} was recorded")
        point, winner, verdict = max(known, key=lambda one: one[2].objective_speedup or 0.0)
        self.tried.append(Try(points=len(points), candidate=winner, verdict=verdict))
        results = tuple(
            ConfigurationResult(configuration=each, status=one.status, latency_ms=one.latency_ms)
            for each, _, one in known
            if each
        )
        return replace(
            verdict,
            configuration=point or None,
            configurations=results,
            cost_s=sum(one.cost_s for _, _, one in known),
        )

    async def close(self) -> None:
        """Do nothing: nothing was started."""

    def _stated(self, found: Evaluation) -> Evaluation:
        """A verdict with times that its speedup says."""
        if found.speedup is None:
            return found
        latency_ms = self.reference_ms / found.speedup
        return replace(found, reference_ms=self.reference_ms, latency_ms=latency_ms)
