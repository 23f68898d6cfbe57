"""Starting candidates' processes where others have the GPU's memory at the moment.

What a process takes is accounted for (`memory`), but contexts and torch's cache only roughly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from evaluator.referee.cuda.candidate import CHECK_ROOM, TIMED_ROOM, CudaCandidate
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.spawner import Spawner, WorkerPlan
from problems.errors import EvaluatorError

__all__ = ["furnish", "open_as_candidate", "started", "timed_room"]

T = TypeVar("T")
PATIENCE_S, PAUSE_S = 30.0, 0.5


def started(
    session: CudaSession, spawner: Spawner, plan: WorkerPlan, deadlines: Deadlines
) -> CudaCandidate:
    """Start a process; waits for memory."""
    return _patiently(session, lambda: CudaCandidate(session, spawner, plan, deadlines))


def furnish(session: CudaSession, candidate: CudaCandidate) -> None:
    """Give a process its timed room; waits for memory. Not to be called under the timing gate."""
    _patiently(session, lambda: candidate.give_room(timed_room(session), session.memory.num_timed))


def open_as_candidate(session: CudaSession, process: CudaCandidate, *, hidden: bool) -> None:
    """Load the reference into a process as if it were a candidate; waits for memory.

    Args:
        session: The problem.
        process: One in which no candidate's code was loaded.
        hidden: Whether it computes with the hidden weights, which are published.

    Raises:
        CandidateFailed: It does not load there.
        EvaluatorError: There is no memory for its timed room.
    """
    process.open(0, f"{session.problem.source}\n\nModelNew = Model\n")
    if hidden and session.has_state:
        with session.weights_lock:
            process.load_weights(0)
    furnish(session, process)


def timed_room(session: CudaSession) -> str:
    """Return the name of the room for timed sets: where there is one set, that of check sets."""
    return CHECK_ROOM if session.memory.in_turn else TIMED_ROOM


def _patiently(session: CudaSession, work: Callable[[], T]) -> T:
    """Do something that takes memory of the GPU; where others have it, again for half a minute.

    Args:
        session: The problem.
        work: What is to be done; it may be done again.

    Raises:
        EvaluatorError: There is none, or the reference's process has ended.
    """
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        try:
            return work()
        except EvaluatorError:
            if session.reference.worker.ended:
                raise
            time.sleep(PAUSE_S)
    return work()
