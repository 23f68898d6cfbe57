"""Twins: the reference as a candidate, for calls so short that whose process it is shows.

A product of 256 by 256 with a ReLU took 15.6 us in the reference's process and 15.2 in one like a
candidate's, in the middle of 48 of them, so that it was verified as 2 % faster than itself. So in
a verification a candidate's process has another one beside it, started in the same way, and meets
the reference there.

Covered: speedups of short calls that are where a process's memory lies. Not covered: in a search,
whose claims a verification holds; a problem whose reference cannot be sealed in another process; a
candidate that slows its twin keeps what its own process gains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from archives.evaluation import Status
from evaluator.referee.arena import Watch
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.monitor import NOTHING_SEEN
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import open_as_candidate
from evaluator.referee.effort import HOPELESS_SPEEDUP, Effort
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.timing import Block, estimate

__all__ = ["TwinnedWatch", "has_twins", "twin_of"]

TWIN_CALL_MS = 0.05
"""What was seen, 0.4 us, is half of the least noise floor of such a call."""


def has_twins(session: CudaSession) -> bool:
    """Tell whether calls of a problem are so short that a verification needs twins.

    Args:
        session: The problem.
    """
    return session.seal_bases is not None and session.alone_ms < TWIN_CALL_MS


def twin_of(
    session: CudaSession, start: Callable[[], CudaCandidate], *, hidden: bool
) -> CudaCandidate:
    """Start a twin, and halt it; the gate is not held.

    Args:
        session: The problem.
        start: Starts a process like a candidate's.
        hidden: Whether the candidate computes with the hidden weights.

    Raises:
        CandidateFailed: There is no verdict without a twin.
        EvaluatorError: It could not be started.
    """
    with ExitStack() as held:
        twin = start()
        held.callback(twin.end)
        try:
            open_as_candidate(session, twin, hidden=hidden)
            twin.stop()
        except CandidateFailed as failure:
            raise _not_timed(failure) from failure
        held.pop_all()
    return twin


class TwinnedWatch:
    """A candidate's clock that lets it meet the reference in its twin; under the timing gate.

    Attributes:
        conditions: How many times as fast the reference was in the twin.

    Args:
        own: The candidate's.
        twin: Makes the twin's: one clock at a time looks at the device.
        alone_ms: Time of a call of the reference.
        stop: Halts the twin.
    """

    def __init__(
        self,
        own: Watch,
        twin: Callable[[], Watch],
        alone_ms: float,
        stop: Callable[[], None],
    ) -> None:
        self.conditions = NOTHING_SEEN
        self._own = own
        self._twin = twin
        self._alone_ms = alone_ms
        self._stop = stop

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs; see `Watch.race`."""
        return self._own.race(indices)

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        """Time a configuration, and then the twin; who is hopeless needs none.

        A twin that is slower than the reference gives nothing: what slows it may be the candidate.

        Raises:
            CandidateFailed: As `CudaStopwatch.blocks`, or the twin could not be timed.
        """
        blocks = self._own.blocks(index, latency_ms, effort)
        if estimate(blocks).speedup < HOPELESS_SPEEDUP:
            return blocks
        try:
            beside = self._twin().blocks(0, self._alone_ms, effort)
            self._stop()
        except CandidateFailed as failure:
            raise _not_timed(failure) from failure
        elsewhere = max(1.0, estimate(beside).speedup)
        self.conditions = replace(self.conditions, elsewhere=elsewhere)
        return [block.against_faster(elsewhere) for block in blocks]


def _not_timed(failure: CandidateFailed) -> CandidateFailed:
    log = f"the reference could not be timed in a candidate's place: {failure.log}"
    return CandidateFailed(Status.UNSTABLE, "twin_not_timed", log)
