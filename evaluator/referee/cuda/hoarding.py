"""Whose fault it is when there is no memory on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from archives.evaluation import Status
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.draws import CudaCheckSet
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.turns import Turn
from evaluator.referee.failure import CandidateFailed, host_noisy
from problems.errors import DeviceCrowded

__all__ = ["alone_in_memory", "telling_hoarders"]

SLACK = 0.125
"""Part of the GPU's memory that a candidate may have beyond what is planned for it, and not be held
to be the one that took what is missing. Others may end in the same moment, and give theirs back."""


@contextmanager
def alone_in_memory(turn: Turn[CudaCheckSet] | None) -> Iterator[None]:
    """Let nobody fail for memory that another candidate of the problem may have kept.

    Args:
        turn: The candidate's, where several of a large problem hold memory side by side.

    Raises:
        CandidateFailed: As the candidate fails, but `UNSTABLE` where it found no memory beside
            another one.
    """
    is_shared = turn is not None and turn.is_shared
    try:
        yield
    except CandidateFailed as failure:
        is_shared = is_shared or (turn is not None and turn.is_shared)
        if failure.status is Status.OUT_OF_MEMORY and is_shared:
            log = "another candidate of this problem may have had the memory that was missing"
            raise host_noisy(log) from failure
        raise


@contextmanager
def telling_hoarders(
    session: CudaSession,
    processes: Sequence[CudaCandidate],
    alone: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    """Where the reference finds no memory, end a candidate's processes, and see what they held.

    Args:
        session: The problem.
        processes: All of the candidate's, those that have ended among them.
        alone: Takes the gate alone: what others end or give back meanwhile would count as theirs.

    Raises:
        CandidateFailed: They held far more than is planned for them.
        DeviceCrowded: Others have the memory.
    """
    try:
        yield
    except DeviceCrowded as error:
        living = [process for process in processes if process.alive]
        if not living:
            raise
        with alone():
            held, total = _freed(session, living)
        planned = session.memory.candidate_bytes * len(living)
        if held <= planned + SLACK * total:
            raise
        log = (
            f"it held {held} bytes of the GPU's memory, where {planned} are planned for it, and "
            "its reference found none: keep less from call to call."
        )
        raise CandidateFailed(Status.OUT_OF_MEMORY, "hoarded_memory", log) from error


def _freed(session: CudaSession, processes: Sequence[CudaCandidate]) -> tuple[int, int]:
    """Bytes that ending processes gives back, and all of the GPU's."""
    # What the reference's process maps of theirs would outlive them.
    before, total = session.reference.trim()
    for process in processes:
        process.end()
    after, _ = session.reference.trim()
    return after - before, total
