"""No candidate is faster than light: what the GPU's datasheet does not allow is no verdict."""

from __future__ import annotations

from threading import Lock

from archives.evaluation import Status
from evaluator.referee.ceiling import hold_against_light
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.hardware import Device, find_device
from evaluator.referee.roofline import Light, light, work_of
from evaluator.referee.timing import Ratio
from problems.errors import ConfigError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["SpeedOfLight"]


class SpeedOfLight:
    """The bounds of problems on one GPU, each computed once. Usable from several threads."""

    def __init__(self, gpu_name: str) -> None:
        """Look the GPU up; one that the hardware table lacks is held against nothing.

        Args:
            gpu_name: As the driver reports it.
        """
        self._device: Device | None
        try:
            self._device = find_device(gpu_name)
        except ConfigError:
            self._device = None
        self._lights: dict[str, Light] = {}
        self._lock = Lock()

    def require_possible(self, problem: Problem, graph: OperatorGraph | None, ratio: Ratio) -> None:
        """Fail a candidate whose time no program on this device can reach.

        Args:
            problem: The problem.
            graph: Its operator graph; None where it cannot be traced: nothing is known then.
            ratio: What was measured.

        Raises:
            CandidateFailed: `IMPOSSIBLE`, "faster_than_memory" or "faster_than_a_launch".
        """
        if self._device is None or graph is None:
            return
        with self._lock:
            bound = self._lights.get(problem.key)
            if bound is None:
                work = work_of(graph, problem.domains)
                bound = self._lights[problem.key] = light(work, self._device, problem.precision)
        found = hold_against_light(
            ratio.latency_ms,
            bound,
            self._device,
            precision=problem.precision,
            reference_ms=ratio.reference_ms,
        )
        if found.is_impossible:
            raise CandidateFailed(Status.IMPOSSIBLE, found.reason, found.sentence)
