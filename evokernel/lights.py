"""The speed of light of many problems on one device, as workers trace them or a run knows them.

Where a problem states no domains they are read off its source: triangles and symmetric halves count
as they do in the catalogue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from archives.evaluation import DeviceFingerprint
from evaluator.evaluator import Evaluator
from evaluator.referee.hardware import Device, find_device
from evaluator.referee.roofline import Light, light, work_of
from evaluator.referee.source_domains import known_domains
from problems.errors import ConfigError, ProblemError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Bound", "light_on", "trace_bounds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is known of one problem's speed of light.

    Attributes:
        problem: The problem.
        light: Its bounds; None where it cannot be traced.
        complaint: Why it cannot be traced; else "".
    """

    problem: Problem
    light: Light | None = None
    complaint: str = ""


def light_on(
    device: DeviceFingerprint | None, problem: Problem, graph: OperatorGraph | None
) -> Light | None:
    """Return a problem's bounds by the datasheet of the device that a run measures on.

    Args:
        device: Where it measures.
        problem: The problem.
        graph: Its operator graph.

    Returns:
        None where the graph is not known, or the hardware table has no such device.
    """
    if device is None or device.kind == "cpu" or graph is None:
        return None
    try:
        row = find_device(device.name)
    except ConfigError:
        return None
    return light(work_of(graph, known_domains(problem, graph)), row, problem.precision)


async def trace_bounds(
    problems: Sequence[Problem], device: Device, evaluator: Evaluator | None = None
) -> list[Bound]:
    """Return the bounds of problems on a device, in their order.

    No problem's code runs in this process, and nothing is allocated or computed.

    Args:
        problems: What to trace.
        device: Whose rates hold; it need not be here.
        evaluator: Whose workers trace; None: a referee in this process.

    Raises:
        EvaluatorError: No worker could be started.
    """
    if evaluator is None:
        from evaluator.local import LocalEvaluator

        evaluator = LocalEvaluator()

    async def bound(problem: Problem) -> Bound:
        try:
            graph = await evaluator.graph(problem)
        except ProblemError as error:
            return Bound(problem=problem, complaint=str(error))
        work = work_of(graph, known_domains(problem, graph))
        found = light(work, device, problem.precision)
        return Bound(problem=problem, light=found)

    try:
        await evaluator.start()
        return await asyncio.gather(*(bound(problem) for problem in problems))
    finally:
        await evaluator.close()
