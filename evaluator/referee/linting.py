"""Having a problem looked at, in a process of its own, before a search spends time on it."""

from __future__ import annotations

from evaluator.evaluator import Lint
from evaluator.referee.inputs import secret_seed
from evaluator.referee.station import Station
from problems.errors import ProblemError
from problems.problem import Problem

__all__ = ["lint"]


def lint(station: Station, problem: Problem) -> Lint:
    """Look at a problem.

    It runs on a CPU, whatever the station measures on, at the sizes that the problem has.

    Args:
        station: Starts the process.
        problem: The problem.

    Raises:
        ProblemError: It does not load or run.
        EvaluatorError: The process failed.
    """
    worker = station.spawner.spawn(station.trace_plan)
    try:
        reply = worker.request(
            "lint",
            station.problem_s,
            source=problem.source,
            precision=problem.precision,
            seed=secret_seed() >> 1,
            domains=[{"kind": d.kind.value, "upper": d.upper} for d in problem.domains],
        )
    finally:
        worker.end()
    if not reply["ok"]:
        raise ProblemError(f"problem {problem.label} cannot be linted: {reply.get('log')}")
    flaws, remarks = ("; ".join(map(str, reply[name])) for name in ("flaws", "remarks"))
    return Lint(reason=flaws or None, remark=remarks)
