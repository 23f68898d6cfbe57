"""Judging on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from threading import Semaphore

from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.gate import Gate
from evaluator.referee.cuda.arena import CudaArena, CudaBench
from evaluator.referee.cuda.device import cores_of, environment_of, fingerprint, gpu_of
from evaluator.referee.cuda.draws import CudaCheckSet
from evaluator.referee.cuda.memory import CONTEXT_BYTES, Admission
from evaluator.referee.cuda.monitor import open_monitor, summary
from evaluator.referee.cuda.possible import SpeedOfLight
from evaluator.referee.cuda.sealed import measure_bases, open_trial
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import furnish, started
from evaluator.referee.cuda.turns import Turns
from evaluator.referee.cuda.twins import has_twins
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets, memory_bytes
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.inputs import RENEWAL
from evaluator.referee.ladder import climb
from evaluator.referee.lifting import bytes_of_run
from evaluator.referee.possible import record
from evaluator.referee.rating import measured_rates
from evaluator.referee.sessions import Sessions, closing_on_error
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.station import Grapher
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings
from problems.errors import ProblemError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["CUDA_VERSION", "CudaStation"]

CUDA_VERSION = "cuda-9"
"""Changes whenever numbers would: those of two versions are never compared."""
GIB = 1 << 30
MAX_IN_FLIGHT = 14
SESSIONS_SHARE = 0.1
WAITING_SHARE = 0.2
HELPERS_SHARE = 0.04
TURNS_SHARE = 0.58
"""Parts of the memory. The last and largest is for large problems whose turn it is, each with one
candidate and its reference in float64, and for problems that are being opened. What is left over is
for the one candidate that is timed."""
OPENING_RUNS = 3
"""Runs of a reference whose inputs and outputs are there at a time while its inputs' domains are
found out."""
HOST_BYTES = 8 * GIB
"""Host memory that a candidate's process and its compilers take at most."""


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
        deadlines = deadlines or Deadlines.of("cuda")
        cores = cores or cores_of(self._gpu)
        self.spawner = Spawner(
            deadlines, cores.other, environment=environment_of(self._gpu), preload="cuda"
        )
        self._bench = CudaBench(
            cores=cores,
            gate=gate or Gate(f"cuda-{self._gpu.uuid}"),
            deadlines=deadlines,
            candidate_bytes=HOST_BYTES,
            spawner=self.spawner,
            helpers=Semaphore(_helpers(len(cores.other), self._gpu.memory_bytes)),
            monitor=open_monitor(self._gpu.uuid),
        )
        total = self._gpu.memory_bytes
        self.in_flight = _in_flight(len(cores.other), memory_bytes())
        self._admission = Admission(int(WAITING_SHARE * total))
        self._graphers: dict[str, Grapher] = {}
        self._sessions = Sessions(
            self._open_session, int(SESSIONS_SHARE * total), side_by_side=True
        )
        self._turns = Admission(int(TURNS_SHARE * total))
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
    def lift_plan(self) -> WorkerPlan:
        """One thread on the cores that build; the problem is trusted."""
        return WorkerPlan(
            role="cuda_lift", cpus=self._bench.cores.other, threads=1, memory_bytes=None
        )

    @contextmanager
    def lifting(self, num_bytes: int) -> Iterator[None]:
        """Hold memory as for a candidate of a large problem; see `Station.lifting`."""
        with self._admission.reserved(CONTEXT_BYTES), self._turns.reserved(num_bytes):
            yield

    def sharing(self) -> AbstractContextManager[None]:
        """Share in the timing gate; see `Station.sharing`."""
        return self._bench.gate.shared()

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
        with (
            self._sessions.borrow(request.problem) as session,
            self._admission.reserved(_waiting_bytes(session, request)),
        ):
            ratio, winner = self._judge(session, request, findings)
        graph = self._graph(request.problem)
        domains = session.opened.domains
        record(self._light.require_possible(request.problem, graph, ratio, domains), findings)
        return ratio, winner

    def calibrate(self, known: Rates | None = None) -> Rates | None:
        """Measure what the GPU reaches; see `Station.calibrate`."""
        bench = self._bench
        plan = WorkerPlan(role="cuda_rates", cpus=bench.cores.timed, threads=1, memory_bytes=None)
        rates = known or measured_rates(self.spawner, plan, bench.gate, self.problem_s)
        self._light.calibrate(rates)
        return rates

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
        opening_bytes = OPENING_RUNS * bytes_of_run(graph) or self._gpu.memory_bytes // 4
        with self._turns.reserved(opening_bytes), bench.gate.shared():
            session = CudaSession(
                problem, graph, bench.spawner, plan, bench.deadlines, self._gpu.memory_bytes
            )
        with closing_on_error(session), self._turns.reserved(session.turn_bytes):
            session.fill(bench.gate.shared)
            trial = started(session, bench.spawner, bench.trial_plan, bench.deadlines)
            try:
                with suppress(CandidateFailed):
                    # Opening it will fail then, and tell that no legs can be sealed.
                    furnish(session, trial)
                with bench.gate.shared():
                    is_open = open_trial(session, trial)
                with bench.gate.exclusive():
                    session.settle()
                    session.seal_bases = measure_bases(session, trial) if is_open else None
                    session.rest()
            finally:
                trial.end()
        if session.memory.in_turn:
            session.turns = self._turns_of(session)
        return session

    def _judge(
        self, session: CudaSession, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        bench = self._bench
        if session.turns is not None:
            with session.turns.candidate() as turn:
                arena = CudaArena(bench, session, session.draws.checks_in_turn, turn)
                return _climb(arena, request, findings)
        if request.purpose is Purpose.VERIFY:
            # One verification of a problem at a time: its sets have one place in memory.
            with session.verification_lock:
                with bench.gate.shared():
                    drawn = session.draws.draw_checks(verification=True)
                arena = CudaArena(bench, session, drawn, verifies=True)
                return _climb(arena, request, findings)
        with session.checks_lock:
            session.evaluations += 1
            if session.evaluations > RENEWAL and self._sessions.alone(session.problem):
                with bench.gate.shared():
                    session.checks = session.draws.draw_checks()
                session.evaluations = 1
            checks = session.checks
        return _climb(CudaArena(bench, session, checks), request, findings)

    def _turns_of(self, session: CudaSession) -> Turns[CudaCheckSet]:
        """Turns on a large problem: it has memory while one of its candidates is judged."""

        def draw(number: int) -> CudaCheckSet:
            with self._bench.gate.shared():
                return session.draws.draw_in_turn(number)

        def rest() -> None:
            if not session.ended:
                with self._bench.gate.shared():
                    session.rest()

        return Turns(
            lambda: self._turns.reserved(session.turn_bytes), self._turns.has_impatient, draw, rest
        )


def _climb(arena: CudaArena, request: EvaluationRequest, findings: Findings) -> tuple[Ratio, int]:
    """Climb, and note what the device was like meanwhile."""
    try:
        return climb(arena, request, findings)
    finally:
        findings.conditions = summary(arena.conditions)


def _waiting_bytes(session: CudaSession, request: EvaluationRequest) -> int:
    """Memory of a candidate until it is its turn or is timed, and that of a twin."""
    verifies = request.purpose is Purpose.VERIFY
    twin_bytes = session.memory.candidate_bytes if verifies and has_twins(session) else 0
    return session.memory.waiting_bytes + twin_bytes


def _in_flight(cores: int, host_bytes: int) -> int:
    """Candidates that are worth building and checking at a time."""
    return max(1, min(MAX_IN_FLIGHT, cores, int(host_bytes // HOST_BYTES)))


def _helpers(cores: int, memory_bytes: int) -> int:
    """Processes that may compile ahead at a time: a core and a context for each."""
    return max(1, min(cores, int(HELPERS_SHARE * memory_bytes / CONTEXT_BYTES)))
