"""Judging on this host's CPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from archives.evaluation import DeviceFingerprint
from archives.rates import Rates
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.gate import Gate
from evaluator.referee.arena import published_weights
from evaluator.referee.bench import Bench
from evaluator.referee.candidate_process import CandidateProcess
from evaluator.referee.checking import Accuracy, check
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets, core_sets, fingerprint, memory_bytes
from evaluator.referee.draws import CheckSet
from evaluator.referee.effort import VERIFY_EFFORT
from evaluator.referee.in_turn import SetsInTurn
from evaluator.referee.inputs import RENEWAL
from evaluator.referee.ladder import climb
from evaluator.referee.possible import cpu_limits, record
from evaluator.referee.rating import measured_rates
from evaluator.referee.scheduling import thread_settings
from evaluator.referee.session import Session
from evaluator.referee.sessions import Sessions, closing_on_error
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.station import Grapher
from evaluator.referee.stopwatch import Stopwatch
from evaluator.referee.timing import Ratio
from evaluator.referee.verdict import REFEREE_VERSION, Findings
from problems.errors import ProblemError
from problems.graph import OperatorGraph
from problems.problem import Problem

__all__ = ["IN_FLIGHT", "CpuStation"]

GIB = 1 << 30
IN_FLIGHT = 3
"""Candidates are built and checked while another one is timed: a verification takes seconds."""


class CpuStation:
    """This host's CPU; implements `evaluator.referee.station.Station`."""

    referee_version = REFEREE_VERSION
    in_flight = IN_FLIGHT

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
        self.spawner = Spawner(deadlines, cores.other)
        self._bench = Bench(
            cores=cores,
            gate=gate or Gate(),
            deadlines=deadlines,
            candidate_bytes=candidate_bytes or min(max(memory_bytes() // 4, GIB), 8 * GIB),
            spawner=self.spawner,
        )
        self._session_bytes = session_bytes
        self._graphers: dict[str, Grapher] = {}
        self._limits = cpu_limits(self.device)
        self._sessions = Sessions(self._open_session, session_bytes)

    @property
    def device(self) -> DeviceFingerprint:
        """This CPU with the threads that are timed."""
        return fingerprint(self._bench.cores.threads)

    @property
    def memory_bytes(self) -> int:
        """Half of what is free: the engine and Ray live here too."""
        return memory_bytes() // 2

    @property
    def trace_plan(self) -> WorkerPlan:
        """One thread on the spare cores."""
        bench = self._bench
        return WorkerPlan(
            role="trace",
            cpus=bench.cores.other,
            threads=1,
            memory_bytes=bench.candidate_bytes,
        )

    @property
    def lift_plan(self) -> WorkerPlan:
        """On the spare cores; as many threads as are timed, since Inductor writes for so many."""
        bench = self._bench
        return WorkerPlan(
            role="lift", cpus=bench.cores.other, threads=bench.cores.threads, memory_bytes=None
        )

    def lifting(self, num_bytes: int) -> AbstractContextManager[None]:
        """Hold nothing: what a run of a reference takes, any candidate takes."""
        return nullcontext()

    def sharing(self) -> AbstractContextManager[None]:
        """Share in the timing gate; see `Station.sharing`."""
        return self._bench.gate.shared()

    @property
    def problem_s(self) -> float:
        """As the deadlines say."""
        return self._bench.deadlines.problem_s

    def caller(self) -> AbstractContextManager[None]:
        """Run on the spare cores, before other work; see `Station.caller`."""
        return thread_settings(self._bench.cores.other, preferred=True)

    def judge(
        self, grapher: Grapher, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        """Draw or take the check sets, the source being frozen by now, and climb."""
        self._graphers[request.problem.key] = grapher
        with self._sessions.borrow(request.problem) as session:
            ratio, winner = self._judge(session, request, findings)
        graph = self._graph(request.problem)
        domains = session.opened.domains
        record(self._limits.require_possible(request.problem, graph, ratio, domains), findings)
        return ratio, winner

    def calibrate(self, known: Rates | None = None) -> Rates | None:
        """Measure what the timed cores reach; see `Station.calibrate`."""
        bench = self._bench
        plan = WorkerPlan(
            role="rates",
            cpus=bench.cores.timed,
            threads=bench.cores.threads,
            memory_bytes=None,
            timed=True,
        )
        rates = known or measured_rates(self.spawner, plan, bench.gate, self.problem_s)
        self._limits.calibrate(rates)
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

    def _open_session(self, problem: Problem) -> Session:
        bench = self._bench
        graph = self._graph(problem)
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
        with closing_on_error(session), bench.gate.exclusive():
            session.settle()
        return session

    def _judge(
        self, session: Session, request: EvaluationRequest, findings: Findings
    ) -> tuple[Ratio, int]:
        bench = self._bench
        if session.memory.in_turn:
            # One candidate at a time: its sets have one place in memory.
            with session.verification_lock:

                def draw(number: int) -> CheckSet:
                    with bench.gate.exclusive():
                        return session.draw_in_turn(number)

                sets = SetsInTurn(draw)
                return climb(_CpuArena(bench, session, sets), request, findings)
        if request.purpose is Purpose.VERIFY:
            # One verification of a problem at a time: its sets have one place in memory.
            with session.verification_lock:
                with bench.gate.exclusive():
                    drawn = session.draw_checks(verification=True)
                return climb(_CpuArena(bench, session, drawn), request, findings)
        with session.checks_lock:
            session.evaluations += 1
            if session.evaluations > RENEWAL and self._sessions.alone(session.problem):
                with bench.gate.exclusive():
                    session.checks = session.draw_checks()
                session.evaluations = 1
            checks = session.checks
        return climb(_CpuArena(bench, session, checks), request, findings)


class _CpuArena:
    """One problem on this CPU, for one candidate; implements `evaluator.referee.arena.Arena`."""

    one_process = False
    verify_effort = VERIFY_EFFORT

    def __init__(self, bench: Bench, session: Session, sets: Sequence[CheckSet]) -> None:
        self.gate = bench.gate
        self.builds_s = bench.deadlines.builds_s
        self._bench = bench
        self._session = session
        self._sets = sets
        self._first: CheckSet | None = None

    def build_folder(self) -> Path:
        return self._bench.spawner.build_folder()

    def prepare(self, build: Path, sources: Sequence[str]) -> None:
        """Do nothing: the cores that build are few, and are shared by all candidates in flight."""
        del build, sources

    def process(self, build: Path, *, timed: bool) -> CandidateProcess:
        return self._bench.process(self._session, build, timed=timed)

    def look(self, process: CandidateProcess, index: int) -> Accuracy:
        if self._first is None:
            self._first = self._sets[0]
        return check(self._session, process, index, [self._first], self._bench.turn)

    def check(self, process: CandidateProcess, index: int) -> Accuracy:
        return check(self._session, process, index, self._sets, self._bench.turn)

    def load_hidden(self, process: CandidateProcess, index: int) -> None:
        if self._session.has_state:
            with self._session.weights_lock:
                process.load_weights(index)

    def weights(self, *, hidden: bool) -> AbstractContextManager[None]:
        """Let the reference compute with the weights that the candidate has."""
        return published_weights(self._session, hidden=hidden)

    def timing(self) -> AbstractContextManager[None]:
        """Hold nothing: a process has its memory."""
        return nullcontext()

    def furnish(self, process: CandidateProcess) -> None:
        """Do nothing: it has its memory."""
        del process

    def watch(self, process: CandidateProcess) -> Stopwatch:
        return Stopwatch(self._session, process)

    def census(self, process: CandidateProcess, index: int, calls: int) -> dict[str, Any]:
        return process.census(index, self._sets[0].base, calls)
