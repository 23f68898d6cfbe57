"""Judging on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

from archives.evaluation import DeviceFingerprint
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.gate import Gate
from evaluator.referee.cuda.arena import CudaArena, CudaBench
from evaluator.referee.cuda.device import core_sets, environment_of, fingerprint, gpu_of
from evaluator.referee.cuda.memory import Admission
from evaluator.referee.cuda.monitor import open_monitor
from evaluator.referee.cuda.possible import SpeedOfLight
from evaluator.referee.cuda.session import CudaCheckSet, CudaSession
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets, memory_bytes
from evaluator.referee.in_turn import SetsInTurn
from evaluator.referee.inputs import RENEWAL
from evaluator.referee.ladder import climb
from evaluator.referee.sessions import Sessions
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.station import Grapher
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from problems.errors import ProblemError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CUDA_VERSION", "CudaStation"]

CUDA_VERSION = "cuda-1"
"""Changes whenever numbers would: those of two versions are never compared."""
GIB = 1 << 30
MAX_IN_FLIGHT = 14
SESSIONS_SHARE = 0.35
CANDIDATES_SHARE = 0.45
HOST_BYTES = 8 * GIB
"""Host memory that a candidate's process and its compilers take at most."""
BUILD_S = 240.0


class CudaStation:
    """One NVIDIA GPU; implements `evaluator.referee.station.Station`."""

    referee_version = CUDA_VERSION

    def __init__(
        self,
        index: int = 0,
        *,
        cores: CoreSets | None = None,
        deadlines: Deadlines | None = None,
        gate: Gate | None = None,
    ) -> None:
        """Prepare it; processes start with the first use.

        Args:
            index: Number of the GPU among those that this process may use.
            cores: Which cores launch what is timed, and which build.
            deadlines: How long each step may take.
            gate: The GPU's timing gate.

        Raises:
            EvaluatorError: There is no such GPU.
        """
        self._gpu = gpu_of(index)
        deadlines = deadlines or Deadlines(build_s=BUILD_S)
        cores = cores or core_sets()
        self.spawner = Spawner(
            deadlines, cores.other, environment=environment_of(self._gpu), preload="cuda"
        )
        self._bench = CudaBench(
            cores=cores,
            gate=gate or Gate(f"cuda-{self._gpu.uuid}"),
            deadlines=deadlines,
            candidate_bytes=HOST_BYTES,
            spawner=self.spawner,
            monitor=open_monitor(self._gpu.uuid),
        )
        total = self._gpu.memory_bytes
        self.in_flight = _in_flight(len(cores.other), memory_bytes())
        self._admission = Admission(int(CANDIDATES_SHARE * total))
        self._graphers: dict[str, Grapher] = {}
        self._sessions = Sessions(self._open_session, int(SESSIONS_SHARE * total))
        self._large = Lock()
        self._light = SpeedOfLight(self._gpu.name)

    @property
    def device(self) -> DeviceFingerprint:
        """This GPU with its software."""
        return fingerprint(self._gpu)

    @property
    def memory_bytes(self) -> int:
        """All of the GPU's memory."""
        return self._gpu.memory_bytes

    @property
    def trace_plan(self) -> WorkerPlan:
        """One thread on the cores that build."""
        return WorkerPlan(
            role="trace", cpus=self._bench.cores.other, threads=1, memory_bytes=HOST_BYTES
        )

    @property
    def problem_s(self) -> float:
        """As the deadlines say."""
        return self._bench.deadlines.problem_s

    def caller(self) -> AbstractContextManager[None]:
        """Run as any thread does: the number is the device's; see `Station.caller`."""
        return nullcontext()

    def judge(
        self, grapher: Grapher, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        """Draw or take the check sets, the source being frozen by now, and climb."""
        self._graphers[request.problem.key] = grapher
        with self._sessions.borrow(request.problem) as session:
            memory = session.memory
            alone = self._large if memory.in_turn else nullcontext()
            with alone, self._admission.reserved(memory.candidate_bytes):
                ratio, winner = self._judge(session, request, findings)
        self._light.require_possible(request.problem, self._graph(request.problem), ratio)
        return ratio, winner

    def drop(self, problem: Problem) -> None:
        """Close a problem; see `Station.drop`."""
        self._sessions.drop(problem)

    def close(self) -> None:
        """Close every problem."""
        self._sessions.close()

    def _graph(self, problem: Problem) -> OperatorGraph | None:
        try:
            return self._graphers[problem.key].graph(problem)
        except ProblemError:
            # What cannot be traced may run all the same; if not, the session says why.
            return None

    def _open_session(self, problem: Problem) -> CudaSession:
        bench = self._bench
        graph = self._graph(problem)
        plan = WorkerPlan(
            role="cuda_reference", cpus=bench.cores.timed, threads=1, memory_bytes=None
        )
        with bench.gate.shared():
            session = CudaSession(
                problem, graph, bench.spawner, plan, bench.deadlines, self._gpu.memory_bytes
            )
        with session.closing_on_error(), bench.gate.exclusive():
            session.settle()
            session.rest()
        return session

    def _judge(
        self, session: CudaSession, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        bench = self._bench
        if session.memory.in_turn:
            with _resting(session):

                def draw(number: int) -> CudaCheckSet:
                    with bench.gate.shared():
                        return session.draw_in_turn(number)

                sets = SetsInTurn(draw)
                return climb(CudaArena(bench, session, sets), request, findings)
        if request.purpose is Purpose.VERIFY:
            # One verification of a problem at a time: its sets have one place in memory.
            with session.verification_lock:
                with bench.gate.shared():
                    drawn = session.draw_checks(verification=True)
                return climb(CudaArena(bench, session, drawn), request, findings)
        with session.checks_lock:
            session.evaluations += 1
            if session.evaluations > RENEWAL and self._sessions.alone(session.problem):
                with bench.gate.shared():
                    session.checks = session.draw_checks()
                session.evaluations = 1
            checks = session.checks
        return climb(CudaArena(bench, session, checks), request, findings)


@contextmanager
def _resting(session: CudaSession) -> Iterator[None]:
    """Let the reference's process give memory back after the block, where it still lives."""
    try:
        yield
    finally:
        if not session.reference.worker.ended:
            session.rest()


def _in_flight(cores: int, host_bytes: int) -> int:
    """Candidates that are worth building and checking at a time."""
    return max(1, min(MAX_IN_FLIGHT, cores, int(host_bytes // HOST_BYTES)))
