"""Library work: what a run makes of candidates that leave the work to a library's kernels.

A candidate may call torch or a vendor's library openly. The referee judges it as it judges any
other, and says what share of the time its own kernels take; what that is worth is the run's own
policy (`evaluation.library`):

    mark    it counts as correct and fast, and not as sure: the report shows its share
    allow   it counts as a kernel of its own does, as sure too, and is bred from even where it has
            no kernel at all; its share is shown all the same
    reject  it has no fitness: it is recorded as a failure, and is no elite and no parent

The reference itself is a run's fallback: it is rejected by none, and bred from by none. Where a
share is not known, nothing is rejected for it. The policy is a run's for good: whoever resumes it
cannot change it. Language models are told of it.

Covered: candidates that call a library openly. Not covered: the share is measured in the
candidate's own process, so that one which forges it passes for a kernel of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from pydantic import BaseModel, ValidationError

from archives.candidate import Candidate
from archives.evaluation import LIBRARY_WORK, Evaluation, LibraryPolicy, Status
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from evokernel.fast_p import OWN_SHARE
from operators.seeds import reference_as_candidate
from problems.errors import ConfigError
from problems.problem import Problem

__all__ = ["breeds", "held_to", "is_reference", "policy_of"]


def breeds(
    policy: LibraryPolicy, problem: Problem, candidate_id: str, evaluation: Evaluation
) -> bool:
    """Tell whether a correct candidate is one to breed from, and for models to learn from.

    Library calls alone are a fallback worth keeping, but nothing to vary, unless the run counts
    them; and of the reference every prompt tells anyway.

    Args:
        policy: The run's.
        problem: The problem.
        candidate_id: Id of the candidate.
        evaluation: Its verdict.

    Raises:
        OperatorError: The problem's source does not parse.
    """
    if evaluation.facts.own_kernel_share != 0:
        return True
    return policy == "allow" and candidate_id != _reference_id(problem)


def held_to(policy: LibraryPolicy, request: EvaluationRequest, verdict: Evaluation) -> Evaluation:
    """Return a verdict as it counts in a run; a search's and a verification's alike.

    Args:
        policy: The run's.
        request: What was asked for.
        verdict: The referee's answer.

    Returns:
        The verdict as it is; or, where the policy rejects library work, a failure without fitness
        for a candidate whose own kernels take less than `OWN_SHARE` of the time.
    """
    share = verdict.facts.own_kernel_share
    if policy != "reject" or verdict.status is not Status.OK or share is None:
        return verdict
    if share >= OWN_SHARE or is_reference(request.problem, request.candidate):
        return verdict
    # Rounded down: 89.99 % are not to read as the 90 % that were expected.
    got = f"{math.floor(1000 * share) / 10:g} %"
    return replace(
        verdict,
        status=Status.SCREENED,
        reason=LIBRARY_WORK,
        log=(
            f"Kernels of torch or another library do the work: the candidate's own take {got} of "
            f"the time, expected at least {OWN_SHARE:.0%} where evaluation.library is 'reject': "
            "do the work in kernels of your own, or start a run with evaluation.library=mark."
        ),
        speedup=None,
        matched_speedup=None,
        interval=None,
    )


def is_reference(problem: Problem, candidate: Candidate) -> bool:
    """Tell whether a candidate is the problem's reference itself.

    Raises:
        OperatorError: The problem's source does not parse.
    """
    return candidate.id == _reference_id(problem)


def policy_of(store: Store) -> LibraryPolicy:
    """Return the policy of a run; runs from before there was a choice have marked.

    Nothing else of the configuration is read, so that runs of other versions can be reported.

    Raises:
        ConfigError: It is none that this version knows.
        StoreError: The store cannot be read.
    """
    try:
        return _Kept.model_validate_json(store.run().config_json or "{}").evaluation.library
    except ValidationError as error:
        got = error.errors(include_url=False)[0]["input"]
        raise ConfigError(
            f"the configuration stored in {store.folder} has evaluation.library = {got!r}, "
            "expected one of allow, mark, reject: use the version that started the run"
        ) from error


@lru_cache(maxsize=256)
def _reference_id(problem: Problem) -> str:
    """The id of the problem's reference, a candidate like others."""
    return Candidate.of(problem.key, reference_as_candidate(problem)).id


class _KeptEvaluation(BaseModel):
    library: LibraryPolicy = "mark"


class _Kept(BaseModel):
    """What is read of a stored configuration."""

    evaluation: _KeptEvaluation = _KeptEvaluation()
