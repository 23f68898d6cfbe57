"""Having a problem's reference compiled by Inductor, in a process of its own.

Compiling needs cores alone and goes on beside whatever is timed; drawing the inputs, and the one
run at the end, share the device as a check does, and take its memory only meanwhile. What fails
costs its own option set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evaluator.referee.footprint import largest_intermediate
from evaluator.referee.spawner import Worker, WorkerPlan
from evaluator.referee.station import Station
from problems.errors import EvaluatorError
from problems.footprint import tensor_bytes
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["bytes_of_run", "lift"]

COMPILE_S = 240.0
_DETAIL_CHARACTERS = 300

OptionSets = Mapping[str, Mapping[str, object]]


def lift(
    station: Station,
    problem: Problem,
    graph: OperatorGraph | None,
    option_sets: OptionSets = OPTION_SETS,
) -> tuple[Lifted, ...]:
    """Return what Inductor writes for a reference under each option set.

    Args:
        station: The device.
        problem: The problem.
        graph: What its reference does, for the memory that it takes; None: not known.
        option_sets: Inductor's options by the name of their set.

    Returns:
        One for each option set, in order, those that failed with a reason.

    Raises:
        EvaluatorError: No process can be started.
    """
    plan = station.lift_plan
    found: list[Lifted] = []
    num_bytes = bytes_of_run(graph)
    while len(found) < len(option_sets):
        left = dict(list(option_sets.items())[len(found) :])
        # What ends its process takes that one option set with it.
        found += _in_one_process(station, plan, problem, left, num_bytes)
    return tuple(found)


def bytes_of_run(graph: OperatorGraph | None) -> int:
    """Return the bytes of a model, its inputs and outputs, and what it computes on the way."""
    if graph is None:
        return 0
    return tensor_bytes(graph) + 2 * largest_intermediate(graph)


def _in_one_process(
    station: Station, plan: WorkerPlan, problem: Problem, option_sets: OptionSets, num_bytes: int
) -> Iterator[Lifted]:
    """Yield one result after the other, until the process fails; there is one at least."""
    worker = station.spawner.spawn(plan)
    name = next(iter(option_sets))
    try:
        fields = {"source": problem.source, "precision": problem.precision}
        worker.request("prepare", COMPILE_S)
        with station.lifting(num_bytes):
            reply = worker.request("open", COMPILE_S, device=station.device.kind, **fields)
        for name, options in option_sets.items():
            if not reply["ok"]:
                yield _failed(name, "problem_raised", str(reply.get("log", "")))
            else:
                yield _one(station, worker, name, options, num_bytes)
    except EvaluatorError as error:
        yield _failed(name, "process_failed", str(error))
    finally:
        worker.end()


def _one(
    station: Station, worker: Worker, name: str, options: Mapping[str, object], num_bytes: int
) -> Lifted:
    reply = worker.request("compile", COMPILE_S, name=name, options=dict(options))
    if reply["ok"] and reply["lifted"] is None:
        with station.lifting(num_bytes), station.sharing():
            reply = worker.request("finish", station.problem_s)
    return _read(name, reply)


def _read(name: str, reply: Mapping[str, Any]) -> Lifted:
    """What a reply tells; code that does not fit in a frame is one of the failures."""
    if not reply["ok"]:
        return _failed(name, str(reply.get("reason", "failed")), str(reply.get("log", "")))
    return Lifted.from_json(reply["lifted"])


def _failed(name: str, reason: str, detail: str) -> Lifted:
    line = detail.strip().splitlines()[-1] if detail.strip() else ""
    return Lifted(options=name, reason=reason, detail=line[:_DETAIL_CHARACTERS], kernels={})
