"""Looking at a problem before a search spends time on it."""

from __future__ import annotations

import logging

from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.search import ProblemSearch
from problems.errors import EvaluatorError, ProblemError
from problems.problem import Scale

__all__ = ["lint_once"]

_LOG = logging.getLogger(__name__)
_DONE = "lint"


async def lint_once(store: Store, evaluator: Evaluator, search: ProblemSearch) -> None:
    """Mark a problem of the user's own that says little about a kernel; figures leave it out.

    One that is loose, of which KernelBench's tolerance proves nothing, is marked as such. It is
    done before anything is recorded of the problem. The bundled problems were looked at when they
    were written down.

    Args:
        store: Where the mark is kept.
        evaluator: Runs the problem.
        search: The problem's; it remembers that this was done.
    """
    problem = search.problem
    if problem.scale is not Scale.CUSTOM or problem.degenerate or _DONE in search.missing:
        return
    if search.reached >= 0 or search.recorded:
        return
    search.missing.add(_DONE)
    try:
        seen = await evaluator.lint(problem)
    except ProblemError as error:
        # The referee's word on what is wrong comes with the first evaluation.
        _LOG.info("problem %s could not be looked at: %s", problem.label, error)
    except EvaluatorError as error:
        _LOG.warning("problem %s could not be looked at: %s", problem.label, error)
    else:
        if seen.reason is not None or seen.remark:
            store.mark_problem(problem.key, degenerate=seen.reason, loose=seen.remark or None)
