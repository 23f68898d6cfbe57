"""Having a candidate looked at by NVIDIA's compute-sanitizer, in a sandbox like a candidate's.

Covered: honest programs that read or write out of bounds, or race in shared memory. What is found
withdraws a candidate or is shown; that nothing is found earns nothing.
Not covered: a candidate that hides from the tool, which runs beside it under the same user.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evaluator.referee.inputs import secret_seed
from evaluator.referee.lifting import bytes_of_run
from evaluator.referee.station import Station
from evaluator.sanitizing import Sanitized, read_findings
from problems.errors import EvaluatorError, WorkerTimeout
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["sanitize"]

_PATIENCE_S = 180.0
"""A kernel under the tool takes up to a hundred times as long, and torch ten seconds to import."""
_GRACE_S = 20.0


def sanitize(
    station: Station,
    problem: Problem,
    graph: OperatorGraph | None,
    source: str,
    tool: Path,
    check: str,
) -> Sanitized:
    """Call a candidate once under the tool, on inputs drawn for it on the device.

    Args:
        station: The device.
        problem: The problem.
        graph: What its reference does, for the memory that it takes; None: not known.
        source: Text of the candidate.
        tool: The program compute-sanitizer.
        check: Which of its tools.

    Raises:
        EvaluatorError: The process could not be started.
    """
    role = "cuda_sanitizer" if station.device.kind == "cuda" else "sanitizer"
    plan = replace(station.trace_plan, role=role, readable=(tool.resolve().parent,))
    with station.lifting(bytes_of_run(graph)), station.sharing():
        worker = station.spawner.spawn(plan)
        try:
            if "sockets" not in worker.isolation.split("+"):
                log = "this host gives it no network or no mounts of its own: it is not run"
                return Sanitized(check=check, errors=None, log=log)
            reply = worker.request(
                "sanitize",
                _PATIENCE_S + _GRACE_S,
                tool=str(tool.resolve()),
                check=check,
                source=problem.source,
                candidate=source,
                precision=problem.precision,
                seed=secret_seed() >> 1,
                patience_s=_PATIENCE_S,
            )
        except WorkerTimeout:
            return Sanitized(check=check, errors=None, log="it took too long")
        except EvaluatorError as error:
            return Sanitized(check=check, errors=None, log=f"its process failed: {error}")
        finally:
            worker.end()
    if not reply["ok"]:
        return Sanitized(check=check, errors=None, log=str(reply.get("log", ""))[:500])
    output, finished = reply.get("output"), reply.get("finished") is True
    return read_findings(check, output if isinstance(output, str) else "", finished=finished)
