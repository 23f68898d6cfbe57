"""Having a candidate judged by KernelBench's rules, in the sandbox that candidates have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evaluator.compat import KernelBenchVerdict
from evaluator.processes import remove_folder
from evaluator.referee.failure import clipped
from evaluator.referee.station import Station
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Problem

__all__ = ["judge_as_kernelbench"]


def judge_as_kernelbench(station: Station, problem: Problem, source: str) -> KernelBenchVerdict:
    """Judge a candidate as KernelBench does; a candidate that ends its process is wrong.

    Args:
        station: The device.
        problem: The problem.
        source: Text of the candidate.

    Raises:
        ProblemError: The problem does not load or run.
        EvaluatorError: The process could not be started.
    """
    role = "cuda_compat" if station.device.kind == "cuda" else "compat"
    build = station.spawner.build_folder()
    plan = replace(station.trace_plan, role=role, build=build, build_writable=True)
    try:
        with station.sharing():
            worker = station.spawner.spawn(plan)
            try:
                reply = worker.request(
                    "kernelbench",
                    station.problem_s,
                    source=problem.source,
                    candidate=source,
                    precision=problem.precision,
                )
            except EvaluatorError as error:
                return KernelBenchVerdict(correct=False, log=f"its process failed: {error}")
            finally:
                worker.end()
    finally:
        remove_folder(build)
    if not reply["ok"]:
        raise ProblemError(f"problem {problem.label} does not run: {reply.get('log')}")
    return _read(reply)


def _read(reply: Mapping[str, Any]) -> KernelBenchVerdict:
    """What a reply claims; what is malformed counts as wrong."""
    times = [reply.get("kernel_ms"), reply.get("reference_ms")]
    known = [t for t in times if type(t) is float and t > 0]
    passing = str(reply.get("proves_nothing") or "")[:80]
    if reply.get("correct") is not True or len(known) < len(times):
        log = clipped(str(reply.get("log") or ""))
        return KernelBenchVerdict(correct=False, log=log, proves_nothing=passing)
    return KernelBenchVerdict(
        correct=True, kernel_ms=known[0], reference_ms=known[1], proves_nothing=passing
    )
