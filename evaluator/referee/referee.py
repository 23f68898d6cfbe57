"""The referee: takes a candidate up the ladder and gives the verdict.

    screen    rules over the syntax tree
    build     in a process on the spare cores, while another candidate may be timed
    check     there too: secret inputs, compared with float64
    time      in a fresh process under the timing gate; configurations are halved first
    verify    two more fresh processes, new secret inputs, more blocks

No code of a candidate or a problem runs in the referee's own process, and torch is not imported.
"""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter

from archives.evaluation import DeviceFingerprint, Evaluation
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.gate import Gate
from evaluator.referee.bench import Bench
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets, core_sets, fingerprint, memory_bytes
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.in_turn import SetsInTurn
from evaluator.referee.inputs import RENEWAL
from evaluator.referee.ladder import climb, require_screened
from evaluator.referee.scheduling import thread_settings
from evaluator.referee.session import Session
from evaluator.referee.sessions import Sessions
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import Findings, failed, passed
from problems.errors import ProblemError, WorkerDied, WorkerTimeout
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["Referee"]

GIB = 1 << 30


class Referee:
    """Judges candidates on this host's CPU. Methods may be called from several threads."""

    def __init__(
        self,
        *,
        cores: CoreSets | None = None,
        deadlines: Deadlines | None = None,
        gate: Gate | None = None,
        session_bytes: int = 3 * GIB // 2,
        candidate_bytes: int | None = None,
    ) -> None:
        """Prepare it; processes start with the first use.

        Args:
            cores: Which cores are timed; by default as `core_sets` divides them.
            deadlines: How long each step may take.
            gate: The host's timing gate.
            session_bytes: Shared memory for open problems together; a problem that would take
                more on its own has its check sets drawn in turn.
            candidate_bytes: Memory of one candidate; by default a quarter of what is free.
        """
        deadlines = deadlines or Deadlines()
        cores = cores or core_sets()
        self._bench = Bench(
            cores=cores,
            gate=gate or Gate(),
            deadlines=deadlines,
            candidate_bytes=candidate_bytes or min(max(memory_bytes() // 4, GIB), 8 * GIB),
            spawner=Spawner(deadlines, cores.other),
        )
        self._session_bytes = session_bytes
        self._sessions = Sessions(self._open_session, session_bytes)
        self._graphs: dict[str, OperatorGraph] = {}

    @property
    def device(self) -> DeviceFingerprint:
        """Where it measures."""
        return fingerprint(self._bench.cores.threads)

    def start(self) -> None:
        """Start the process that workers are forked from.

        Raises:
            EvaluatorError: It did not come up.
        """
        self._bench.spawner.start()

    def close(self) -> None:
        """End every process."""
        self._sessions.close()
        self._bench.spawner.close()

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
        bench = self._bench
        plan = WorkerPlan(
            role="trace",
            cpus=bench.cores.other,
            threads=1,
            memory_bytes=bench.candidate_bytes,
        )
        worker = bench.spawner.spawn(plan)
        try:
            fields = {"source": problem.source, "precision": problem.precision}
            reply = worker.request("trace", bench.deadlines.problem_s, **fields)
        finally:
            worker.end()
        if not reply["ok"]:
            raise ProblemError(f"problem {problem.label} cannot be traced: {reply.get('log')}")
        return OperatorGraph.from_json(reply["graph"])

    def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Judge a candidate; whatever it does, the verdict is a value.

        Raises:
            ProblemError: The problem does not run, does not fit, or cannot be judged.
            EvaluatorError: A trusted process failed.
        """
        with thread_settings(self._bench.cores.other, preferred=True):
            return self._evaluate(request)

    def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        start = perf_counter()
        findings = Findings()
        try:
            require_screened(request.candidate.source, findings)
            with self._sessions.borrow(request.problem) as session:
                ratio, winner = self._judge(session, request, findings)
        except CandidateFailed as failure:
            return failed(findings, failure, self.device, perf_counter() - start)
        except (WorkerDied, WorkerTimeout):
            self._sessions.drop(request.problem)
            raise
        return passed(findings, ratio, winner, self.device, perf_counter() - start)

    def _open_session(self, problem: Problem) -> Session:
        bench = self._bench
        graph: OperatorGraph | None
        try:
            graph = self.graph(problem)
        except ProblemError:
            # What cannot be traced may run all the same; if not, the session says why.
            graph = None
        with nullcontext() if bench.cores.opens_aside else bench.gate.exclusive():
            session = Session(
                problem,
                graph,
                bench.spawner,
                bench.cores,
                bench.deadlines,
                self._session_bytes,
                bench.turn,
            )
        with session.closing_on_error(), bench.gate.exclusive():
            session.settle()
        return session

    def _judge(
        self, session: Session, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        """Draw or take the check sets, the source being frozen by now, and climb."""
        bench = self._bench
        if session.memory.in_turn:
            # One candidate at a time: its sets have one place in memory.
            with session.verification_lock:
                return climb(bench, session, SetsInTurn(session, bench.gate), request, findings)
        if request.purpose is Purpose.VERIFY:
            # One verification of a problem at a time: its sets have one place in memory.
            with session.verification_lock:
                with bench.gate.exclusive():
                    sets = session.draw_checks(verification=True)
                return climb(bench, session, sets, request, findings)
        with session.checks_lock:
            session.evaluations += 1
            if session.evaluations > RENEWAL and self._sessions.alone(session.problem):
                with bench.gate.exclusive():
                    session.checks = session.draw_checks()
                session.evaluations = 1
            sets = session.checks
        return climb(bench, session, sets, request, findings)
