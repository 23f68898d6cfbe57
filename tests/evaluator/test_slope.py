"""The slope clock of the CPU's stopwatch: what it accuses of, and what it leaves to the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from archives.evaluation import Status
from evaluator.referee.candidate_process import CandidateProcess
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.session import Session
from evaluator.referee.stopwatch import SLOPE_READINGS, Stopwatch
from evaluator.referee.timing import Block, estimate

CALLS, EMPTY_MS = 10, 0.1
OWN = estimate([Block(reference_ms=(1.0, 1.0), candidate_ms=(1.0, 1.0))] * 5)
"""What the blocks have said: 1 ms a call."""


def readings(leg_ms: Callable[[int, int], float], monkeypatch: pytest.MonkeyPatch) -> int:
    """Let the slope clock read; return how many short legs it took.

    Args:
        leg_ms: The time of a leg, from its calls and the number of legs before it.
    """
    monkeypatch.setattr("evaluator.referee.stopwatch.SLOPE_PAUSE_S", 0.0)
    legs: list[int] = []

    def leg(index: int, bases: list[int]) -> float:
        legs.append(len(bases))
        return leg_ms(len(bases), len(legs) - 1)

    session = SimpleNamespace(
        empty_ms=lambda: EMPTY_MS,
        mixed_bases=lambda count: list(range(count)),
        turn=nullcontext(),
        reference=SimpleNamespace(worker=SimpleNamespace(stop=lambda: None)),
    )
    candidate = SimpleNamespace(stop=lambda: None, leg_ms=leg)
    watch = Stopwatch(cast("Session", session), cast("CandidateProcess", candidate))
    watch._require_slope(0, CALLS, OWN)
    return sum(calls < CALLS for calls in legs)


def test_an_honest_clock_is_confirmed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert readings(lambda calls, before: EMPTY_MS + calls, monkeypatch) == 1


def test_calls_whose_work_is_done_in_one_are_a_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CandidateFailed) as failed:
        readings(lambda calls, before: EMPTY_MS + CALLS, monkeypatch)
    assert (failed.value.status, failed.value.reason) == (Status.TIMING_MISMATCH, "slope")


def test_what_disturbs_the_host_for_a_moment_is_no_mismatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leg_ms(calls: int, before: int) -> float:
        disturbed = before < SLOPE_READINGS - 1 and calls < CALLS
        return EMPTY_MS + (CALLS if disturbed else calls)

    assert readings(leg_ms, monkeypatch) == SLOPE_READINGS // 2 + 1


def test_a_host_that_has_changed_its_pace_is_no_mismatch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CandidateFailed) as failed:
        readings(lambda calls, before: EMPTY_MS + 4 * CALLS, monkeypatch)
    assert failed.value.status is Status.UNSTABLE
