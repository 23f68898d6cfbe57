"""Asking a referee about an entry of the zoo, and what its verdict may be called there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archives.candidate import Candidate
from archives.evaluation import Evaluation, Reuse, Rung, Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.referee import Referee
from evaluator.referee.timing import LEAST_NOISE_FLOOR
from evokernel.fast_p import Score, summarise
from tests.evaluator.referee_cases import first_stable
from tests.zoo.entries import FAILS, LIBRARY, NO_GAIN, Entry, problem

__all__ = [
    "evaluate",
    "outcome",
    "require_passed",
    "require_speedup",
    "require_verdict",
    "told_of",
]

VERIFICATIONS = 2
MAX_UNJUDGED_SHARE = 0.1
"""A host that is too busy to judge more of the entries of a session has shown too little."""
SAMPLERS = frozenset({"sampled_pass_through", "sampled_mean", "dispatch_on_a_sample"})
"""Whether their sample misses what gives them away is luck: a search may overlook them, what is
reported rests on a verification, which must not."""


def told_of(referee: Referee, entry: Entry) -> Evaluation:
    """Return what is told of an entry: a search's verdict, or a verification's where luck matters.

    That is of samplers; of those that should gain nothing and seem to, or seem to be slowed, since
    the few blocks of a search claim a little now and then of the reference itself, and catch a
    slow moment, on a host with neighbours; and of those that ask for it. What seems so even then
    is verified once more, in new processes: how well the pages of a process lie is luck, its
    intervals do not know of it, and what gains by a trick, or is slowed by the referee, is so
    every time.
    """
    verdict = evaluate(referee, entry, purpose=entry.purpose)
    if entry.purpose is Purpose.VERIFY or verdict.status is not Status.OK:
        return verdict
    if entry.name in SAMPLERS:
        verdict = evaluate(referee, entry, purpose=Purpose.VERIFY)
    for _ in range(VERIFICATIONS):
        if not (_seems_slowed(verdict, entry) or _seems_to_gain(verdict, entry)):
            break
        verdict = evaluate(referee, entry, purpose=Purpose.VERIFY)
    return verdict


def _seems_slowed(verdict: Evaluation, entry: Entry) -> bool:
    return verdict.speedup is not None and verdict.speedup < entry.least


def _seems_to_gain(verdict: Evaluation, entry: Entry) -> bool:
    is_right = verdict.status is Status.OK
    return is_right and NO_GAIN in entry.verdicts and not outcome(verdict) & entry.verdicts


def evaluate(referee: Referee, entry: Entry, *, purpose: Purpose = Purpose.SEARCH) -> Evaluation:
    """Judge; again where the host was too busy."""
    what = problem(entry.problem)
    candidate = Candidate.of(what.key, entry.source)
    request = EvaluationRequest(problem=what, candidate=candidate, purpose=purpose)
    return first_stable(referee, request, lambda verdict: outcome(verdict) & entry.verdicts)


def outcome(verdict: Evaluation) -> set[tuple[Status, str] | str]:
    """Return what an entry may call this verdict."""
    found: set[tuple[Status, str] | str] = {(verdict.status, verdict.reason)}
    if verdict.status not in {Status.OK, Status.UNSTABLE}:
        found.add(FAILS)
    if verdict.status is Status.OK:
        assert verdict.interval is not None
        if verdict.interval.low <= 1 + LEAST_NOISE_FLOOR:
            found.add(NO_GAIN)
        share = verdict.facts.own_kernel_share
        score = Score(speedup=9.0, low=9.0, own_kernel_share=share)
        if not any(summarise([score], LEAST_NOISE_FLOOR).fast_p_sure.values()):
            found.add(LIBRARY)
    return found


def require_verdict(verdict: Evaluation, entry: Entry, folder: Path, num_entries: int) -> None:
    """Skip an entry that the host was too busy to judge; fail where there are too many of them.

    Args:
        verdict: What was told of it in the end.
        entry: The entry.
        folder: pytest's base folder of this process: all processes of a session count together.
        num_entries: How many entries there are to judge.
    """
    if verdict.status is not Status.UNSTABLE or outcome(verdict) & entry.verdicts:
        return
    shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with (shared / "unjudged.txt").open("a") as file:
        file.write(f"{entry.name}\n")
    names = (shared / "unjudged.txt").read_text().split()
    told = f"not judged, {len(names)} of {num_entries} so far ({', '.join(names)}): {verdict.log}"
    assert len(names) <= MAX_UNJUDGED_SHARE * num_entries, told
    pytest.skip(told)


def require_passed(verdict: Evaluation, entry: Entry) -> None:
    """Check that a control is right, as fast as it is, and marked as a library's where it is."""
    assert verdict.status is Status.OK, verdict
    assert verdict.rung >= Rung.TIME
    assert (verdict.facts.reuse is Reuse.LIBRARY) == (LIBRARY in entry.verdicts), verdict.facts
    require_speedup(verdict, entry)


def require_speedup(verdict: Evaluation, entry: Entry) -> None:
    """Check that what has a speedup has no less and no more than its entry says."""
    if verdict.status is Status.OK:
        assert verdict.speedup is not None
        assert entry.least <= verdict.speedup <= entry.most, verdict
