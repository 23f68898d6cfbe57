"""Asking a referee about an entry of the zoo, and what its verdict may be called there."""

from __future__ import annotations

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.referee import Referee
from evokernel.fast_p import Score, summarise
from tests.zoo.entries import FAILS, LIBRARY, NO_GAIN, Entry, problem

__all__ = ["evaluate", "outcome", "told_of"]

TRIES = 5
NO_GAIN_BELOW = 1.1
SAMPLERS = frozenset({"sampled_pass_through", "sampled_mean", "dispatch_on_a_sample"})
"""Whether their sample misses what gives them away is luck: a search may overlook them, what is
reported rests on a verification, which must not."""


def told_of(referee: Referee, entry: Entry) -> Evaluation:
    """Return what is told of an entry: a search's verdict, or a verification's of a sampler."""
    verdict = evaluate(referee, entry)
    if entry.name in SAMPLERS and verdict.status is Status.OK:
        return evaluate(referee, entry, purpose=Purpose.VERIFY)
    return verdict


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
