"""Twins: the reference as a candidate, for calls so short that whose process it is shows.

A product of 256 by 256 with a ReLU took 15.6 us in the reference's process and 15.2 in each of 36
processes like a candidate's, so that it was verified as 2 % faster than itself. What a candidate
gains by being in such a process is measured beside it, in one like its own, and does not count.

Covered: speedups of short calls that are where a process's memory lies. Not covered: in a search,
whose claims a verification holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from evaluator.gate import Gate
from evaluator.referee.arena import Watch
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.monitor import Monitor
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.starting import open_as_candidate
from evaluator.referee.cuda.stopwatch import CudaStopwatch
from evaluator.referee.effort import Effort
from evaluator.referee.failure import CandidateFailed, host_noisy
from evaluator.referee.timing import Block, estimate

__all__ = ["TwinnedWatch", "Twins", "has_twins"]

SHORT_CALL_MS = 0.05
"""What was seen, 0.4 us, is half of the least noise floor of such a call."""


def has_twins(session: CudaSession) -> bool:
    """Tell whether calls of a problem are so short that a candidate needs a twin.

    Args:
        session: The problem. One whose reference cannot be sealed in another process has none.
    """
    return session.seal_bases is not None and session.alone_ms < SHORT_CALL_MS


class Twins:
    """The twin of the process that one candidate is timed in; one at a time.

    Args:
        session: The problem.
        gate: The device's timing gate.
        start: Starts a process like a candidate's.
        monitor: Tells whether the GPU is disturbed; None: nothing does.
    """

    def __init__(
        self,
        session: CudaSession,
        gate: Gate,
        start: Callable[[], CudaCandidate],
        monitor: Monitor | None,
    ) -> None:
        self._session = session
        self._gate = gate
        self._start = start
        self._monitor = monitor
        self._process: CudaCandidate | None = None
        self._twin: CudaCandidate | None = None

    def start(self, process: CudaCandidate, *, hidden: bool) -> None:
        """Start a process's twin and halt it, unless it has one; that of another one ends.

        Args:
            process: In which a candidate is to be timed; the gate is not held.
            hidden: Whether it has loaded the hidden weights.

        Raises:
            CandidateFailed: There is no verdict without a twin.
            EvaluatorError: It could not be started.
        """
        if process is self._process:
            return
        self.close()
        twin = self._twin = self._start()
        try:
            with self._gate.shared():
                open_as_candidate(self._session, twin, hidden=hidden)
            twin.stop()
        except CandidateFailed as failure:
            raise _not_timed(failure) from failure
        self._process = process

    def beside(self, process: CudaCandidate, own: Watch) -> Watch:
        """Return a process's clock as its twin holds it."""
        twin = self._twin
        if twin is None or process is not self._process:
            return own
        clock = partial(CudaStopwatch, self._session, twin, self._monitor)
        return TwinnedWatch(own, clock, self._session.alone_ms, twin.stop)

    def close(self) -> None:
        """End the twin."""
        twin, self._twin, self._process = self._twin, None, None
        if twin is not None:
            twin.end()


class TwinnedWatch:
    """A candidate's clock, by which it gains no more than its twin leaves; under the timing gate.

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
        self._own = own
        self._twin = twin
        self._alone_ms = alone_ms
        self._stop = stop

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs; see `Watch.race`."""
        return self._own.race(indices)

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        """Time a configuration, and the twin where it seems faster than the reference.

        A twin that is slower than the reference gives nothing: what slows it may be the candidate.

        Raises:
            CandidateFailed: As `CudaStopwatch.blocks`, or the twin could not be timed.
        """
        blocks = self._own.blocks(index, latency_ms, effort)
        if estimate(blocks).speedup <= 1.0:
            return blocks
        try:
            # Nobody forges the twin's events: sealed pairs have nothing to confirm.
            beside = self._twin().blocks(0, self._alone_ms, replace(effort, sealed_pairs=0))
            self._stop()
        except CandidateFailed as failure:
            raise _not_timed(failure) from failure
        gained = estimate(beside).speedup
        return [block.slower(gained) for block in blocks] if gained > 1.0 else blocks


def _not_timed(failure: CandidateFailed) -> CandidateFailed:
    return host_noisy(f"the reference could not be timed in a candidate's place: {failure.log}")
