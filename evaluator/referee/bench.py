"""What every evaluation of a referee shares: cores, gate, deadlines and the source of processes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.gate import Gate
from evaluator.referee.candidate_process import CandidateProcess
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import CoreSets
from evaluator.referee.session import Session
from evaluator.referee.spawner import Spawner, WorkerPlan

__all__ = ["Bench"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every evaluation of a referee shares.

    Attributes:
        cores: Who runs where.
        gate: The host's timing gate.
        deadlines: How long each step may take.
        candidate_bytes: Memory of one candidate.
        spawner: Forks workers.
        turn: Held while a leg is timed, and by other threads for each chunk they compare.
    """

    cores: CoreSets
    gate: Gate
    deadlines: Deadlines
    candidate_bytes: int
    spawner: Spawner
    turn: threading.Lock = field(default_factory=threading.Lock)

    def process(self, session: Session, build: Path, *, timed: bool) -> CandidateProcess:
        """Fork a process for a candidate: on the timed cores, or to build on the others."""
        plan = WorkerPlan(
            role="candidate",
            cpus=self.cores.timed if timed else self.cores.other,
            threads=self.cores.threads,
            memory_bytes=self.candidate_bytes,
            build=build,
            build_writable=not timed,
            timed=timed,
        )
        return CandidateProcess(session, self.spawner, plan, self.deadlines)
