"""Asking a referee about an entry of the zoo, and what its verdict may be called there."""

from __future__ import annotations

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.referee import Referee
from evokernel.fast_p import Score, summarise
from tests.zoo.entries import FAILS, LIBRARY, NO_GAIN, Entry, problem

__all__ = ["evaluate", "outcome"]

TRIES = 5
NO_GAIN_BELOW = 1.1


def evaluate(referee: Referee, entry: Entry, *, purpose: Purpose = Purpose.SEARCH) -> Evaluation:
    """Judge; again where the host was too busy."""
    what = problem(entry.problem)
    candidate = Candidate.of(what.key, entry.source)
    request = EvaluationRequest(problem=what, candidate=candidate, purpose=purpose)
    for _ in range(TRIES):
        verdict = referee.evaluate(request)
        if verdict.status is not Status.UNSTABLE or NO_GAIN in entry.verdicts:
            break
    return verdict


def outcome(verdict: Evaluation) -> set[tuple[Status, str] | str]:
    """Return what an entry may call this verdict."""
    found: set[tuple[Status, str] | str] = {(verdict.status, verdict.reason)}
    if verdict.status is Status.UNSTABLE:
        found.add(NO_GAIN)
    elif verdict.status is not Status.OK:
        found.add(FAILS)
    if verdict.status is Status.OK:
        assert verdict.interval is not None
        if verdict.interval.low < NO_GAIN_BELOW:
            found.add(NO_GAIN)
        share = verdict.facts.own_kernel_share
        score = Score(speedup=9.0, low=9.0, own_kernel_share=share)
        if not any(summarise([score], 0.015).fast_p_sure.values()):
            found.add(LIBRARY)
    return found
