"""Recording for `ablation.py`: measures the points of a world, some minutes at a time."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from archives.configuration import Configuration
from archives.evaluation import Evaluation, Status
from benchmarks.ablation_tables import LEAST_PASSES, Table, path_of
from benchmarks.ablation_worlds import World
from benchmarks.json_lines import drop_unfinished
from evaluator.evaluator import Capacity, EvaluationRequest, Evaluator
from evokernel.tasks import run_together
from problems.errors import ConfigError, EvaluatorError, ProblemError
from problems.problem import Problem

_MOST_PASSES = 16
"""Measurements of a point at most: a world of a few points says no more than it has."""
_MOST_FAILURES = 8
"""Failures of the evaluator in a row that end a recording, as they end a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """What is recorded in one go.

    Attributes:
        evaluations: Measurements of a problem at least.
        points: Points of a problem's world at least, where its spaces have them.
        end: Reading of the monotonic clock at which nothing more begins; None: no limit.
    """

    evaluations: int
    points: int
    end: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to begin."""
        return self.end is not None and time.monotonic() >= self.end


async def record(
    folder: Path, problems: Sequence[Problem], evaluator: Evaluator, plan: Slice
) -> None:
    """Measure what is missing in the tables of a folder.

    Args:
        folder: Where the tables are; made where it does not exist.
        problems: What to measure, in order.
        evaluator: Not started yet; it is closed in the end.
        plan: How much.

    Raises:
        ConfigError: A table was begun on another device, or by another referee, or is none.
        EvaluatorError: The evaluator does not start, or fails again and again.
        ProblemError: A problem cannot be traced.
    """
    try:
        capacity = await evaluator.start()
        for problem in problems:
            if plan.is_over:
                break
            table = await _table(folder, problem, evaluator, capacity, plan.points)
            before, started = table.num_measurements, time.monotonic()
            await _measure(table, evaluator, capacity.in_flight, plan)
            _tell(table, before, time.monotonic() - started, plan)
    finally:
        await evaluator.close()


def passes_of(num_points: int, evaluations: int) -> int:
    """Return how often each point is measured."""
    return min(_MOST_PASSES, max(LEAST_PASSES, math.ceil(evaluations / num_points)))


async def _table(
    folder: Path, problem: Problem, evaluator: Evaluator, capacity: Capacity, points: int
) -> Table:
    path = path_of(folder, problem)
    if not path.exists():
        graph = await evaluator.graph(problem)
        return Table.create(path, World.write(problem, graph, capacity, points))
    table = Table.read(path)
    # Only now: it is known to be a table, and nobody else writes it.
    drop_unfinished(path)
    world = table.world
    before = (world.problem.key, world.device.uuid, world.referee_version)
    now = (problem.key, capacity.device.uuid, capacity.referee_version)
    if before != now:
        raise ConfigError(
            f"{path} was begun with {world.problem.label} on {world.device} by referee "
            f"{world.referee_version!r}, and this is {problem.label} on {capacity.device} by "
            f"{capacity.referee_version!r}: numbers of two never mix, take another folder"
        )
    return table


async def _measure(table: Table, evaluator: Evaluator, in_flight: int, plan: Slice) -> None:
    """Measure the points in passes, each in another order."""
    waiting = _waiting(table, plan)
    failures = 0

    async def judge(number: int, configuration: Configuration) -> Evaluation:
        nonlocal failures
        request = EvaluationRequest(
            problem=table.world.problem,
            candidate=table.world.candidate(number, configuration),
            configurations=(configuration,) if configuration else (),
        )
        try:
            found = await evaluator.evaluate(request)
        except (EvaluatorError, ProblemError) as error:
            failures += 1
            if failures >= _MOST_FAILURES:
                raise EvaluatorError(
                    f"the evaluator failed {failures} times in a row, most recently on problem "
                    f"{table.world.problem.label}: {error}"
                ) from error
            print(f"no verdict on {dict(configuration)}: {error}", file=sys.stderr, flush=True)
            return Evaluation(status=Status.UNSTABLE, reason="evaluator_failed")
        failures = 0
        return found

    async def take() -> None:
        for number, configuration in waiting:
            table.add(number, configuration, await judge(number, configuration))
            if plan.is_over:
                return

    await run_together(take() for _ in range(in_flight))


def _waiting(table: Table, plan: Slice) -> Iterator[tuple[int, Configuration]]:
    """Yield what is missing; a pass begins once the one before has begun with its last point."""
    points = list(table.world.points())
    for number in range(passes_of(len(points), plan.evaluations)):
        for place in np.random.default_rng(number).permutation(len(points)).tolist():
            program, configuration = points[place]
            if table.lacks(program, configuration, number + 1):
                yield program, configuration


def _tell(table: Table, before: int, seconds: float, plan: Slice) -> None:
    points = list(table.world.points())
    passes = passes_of(len(points), plan.evaluations)
    left = sum(table.lacks(number, configuration, passes) for number, configuration in points)
    done = table.num_measurements - before
    print(
        f"{table.world.problem.label}: {len(points)} points x {passes}, "
        f"{table.num_measurements} measurements, {left} left; {done} in {seconds:.0f} s, the best "
        f"so far {table.best:.2f}x",
        file=sys.stderr,
        flush=True,
    )
