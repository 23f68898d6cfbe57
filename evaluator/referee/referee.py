"""The referee: takes a candidate up the ladder and gives the verdict.

    screen    rules over the syntax tree
    build     in a process on the spare cores, while another candidate may be timed
    check     secret inputs, compared with float64
    time      under the timing gate; configurations are halved first
    verify    in fresh processes, new secret inputs, more blocks

What depends on the device is a station's (`cpu.py`, `cuda/station.py`). No code of a candidate or
a problem runs in the referee's own process, and torch is not imported.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from archives.evaluation import DeviceFingerprint, Evaluation
from archives.rates import Rates
from evaluator.compat import KernelBenchVerdict
from evaluator.evaluator import EvaluationRequest, Lint
from evaluator.referee.compat import judge_as_kernelbench
from evaluator.referee.cpu import CpuStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import require_screened
from evaluator.referee.lifting import lift
from evaluator.referee.linting import lint
from evaluator.referee.sanitizing import sanitize
from evaluator.referee.station import Station
from evaluator.referee.verdict import Findings, Verdicts
from evaluator.sanitizing import Sanitized
from problems.errors import DeviceCrowded, ProblemError, WorkerDied, WorkerTimeout
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["Referee", "new_referee"]

_LOG = logging.getLogger(__name__)


class Referee:
    """Judges candidates on one device. Methods may be called from several threads."""

    def __init__(self, station: Station | None = None) -> None:
        """Prepare it; processes start with the first use.

        Args:
            station: The device; by default this host's CPU.
        """
        self._station: Station = station or CpuStation()
        self._graphs: dict[str, OperatorGraph] = {}

    @property
    def device(self) -> DeviceFingerprint:
        """Where it measures."""
        return self._station.device

    @property
    def version(self) -> str:
        """Version of the measuring protocol."""
        return self._station.referee_version

    @property
    def in_flight(self) -> int:
        """Requests worth having outstanding."""
        return self._station.in_flight

    @property
    def memory_bytes(self) -> int:
        """Memory that one problem may take."""
        return self._station.memory_bytes

    def start(self) -> None:
        """Start the process that workers are forked from.

        Raises:
            EvaluatorError: It did not come up.
        """
        self._station.spawner.start()

    def calibrate(self, known: Rates | None = None) -> Rates | None:
        """Measure what the device reaches; see `Station.calibrate`."""
        return self._station.calibrate(known)

    def break_off(self) -> None:
        """Kill what works now, from another thread: nobody wants the verdict under way."""
        self._station.spawner.kill_workers()

    def close(self) -> None:
        """End every process."""
        self._station.close()
        self._station.spawner.close()

    def graph(self, problem: Problem) -> OperatorGraph:
        """Trace a problem's reference in a process of its own; once for each problem.

        Raises:
            ProblemError: It does not load or cannot be traced.
            EvaluatorError: The process failed.
        """
        graph = self._graphs.get(problem.key)
        if graph is None:
            graph = self._graphs[problem.key] = self._trace(problem)
        return graph

    def _trace(self, problem: Problem) -> OperatorGraph:
        worker = self._station.spawner.spawn(self._station.trace_plan)
        try:
            fields = {"source": problem.source, "precision": problem.precision}
            reply = worker.request("trace", self._station.problem_s, **fields)
        finally:
            worker.end()
        if not reply["ok"]:
            raise ProblemError(f"problem {problem.label} cannot be traced: {reply.get('log')}")
        return OperatorGraph.from_json(reply["graph"])

    def lint(self, problem: Problem) -> Lint:
        """Look for what makes a problem say little; see `linting.lint`.

        Raises:
            ProblemError: It does not load or run.
            EvaluatorError: The process failed.
        """
        return lint(self._station, problem)

    def as_kernelbench(self, problem: Problem, source: str) -> KernelBenchVerdict:
        """Judge a candidate by KernelBench's rules, for comparison; see `compat`.

        Raises:
            ProblemError: The problem does not load or run.
            EvaluatorError: The process could not be started.
        """
        return judge_as_kernelbench(self._station, problem, source)

    def sanitize(self, problem: Problem, source: str, tool: Path, check: str) -> Sanitized:
        """Call a candidate once under compute-sanitizer; see `sanitizing.sanitize`.

        Raises:
            EvaluatorError: The process could not be started.
        """
        return sanitize(self._station, problem, self._known_graph(problem), source, tool, check)

    def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Let Inductor compile a problem's reference; see `lifting.lift`.

        Args:
            problem: The problem.
            option_sets: Names of the sets of options to compile it under.

        Raises:
            EvaluatorError: No process can be started.
        """
        chosen = {name: OPTION_SETS[name] for name in option_sets}
        return lift(self._station, problem, self._known_graph(problem), chosen)

    def _known_graph(self, problem: Problem) -> OperatorGraph | None:
        """None for what cannot be traced: it may run all the same; its size is not known."""
        try:
            return self.graph(problem)
        except ProblemError:
            return None

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Judge a candidate; whatever it does, the verdict is a value.

        Where the reference's process ends meanwhile, or had ended before, the candidate is judged
        once more, on the problem opened anew; also where others had the device's memory.

        Raises:
            ProblemError: The problem does not run, does not fit, or cannot be judged.
            EvaluatorError: A trusted process failed.
        """
        with self._station.caller():
            try:
                return self._evaluate(request)
            except (WorkerDied, DeviceCrowded) as error:
                _LOG.warning("%s: it is judged once more", error)
                return self._evaluate(request)

    def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        start = perf_counter()
        findings = Findings()
        verdicts = Verdicts(device=self.device, referee_version=self.version)
        try:
            require_screened(request.candidate.source, findings)
            ratio, winner = self._station.judge(self, request, findings)
        except CandidateFailed as failure:
            return verdicts.failed(findings, failure, perf_counter() - start)
        except (WorkerDied, WorkerTimeout):
            self._station.drop(request.problem)
            raise
        return verdicts.passed(findings, ratio, winner, perf_counter() - start)


def new_referee(device: str = "cpu", index: int = 0, deadlines: Deadlines | None = None) -> Referee:
    """Return a referee for a device.

    Args:
        device: "cpu" or "cuda".
        index: Number of the GPU, from 0, as the driver counts those that this process may use.
        deadlines: How long each step may take; None: as usual on that device.

    Raises:
        EvaluatorError: There is no such device.
    """
    if device == "cpu":
        return Referee(CpuStation(deadlines=deadlines))
    from evaluator.referee.cuda.station import CudaStation

    return Referee(CudaStation(index, deadlines=deadlines))
