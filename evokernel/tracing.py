"""Tracing: the operator graph of each problem, asked for once and kept in the store.

Where the evaluator cannot trace it, that is kept too, in `RUN/untraced/KEY.txt`: a resumed or
replayed run goes on without the graph, as the run did.
"""

from __future__ import annotations

import logging
from pathlib import Path

from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.lifts import TRIES
from evokernel.search import ProblemSearch
from problems.errors import EvaluatorError, ProblemError, StoreError

__all__ = ["trace_once"]

_LOG = logging.getLogger(__name__)
_MISSING = "graph"


async def trace_once(store: Store, evaluator: Evaluator, search: ProblemSearch) -> None:
    """Get the operator graph of a problem; without one, only some operators apply.

    An evaluator that fails is asked `TRIES` times.

    Raises:
        StoreError: The run cannot be written.
    """
    if search.graph is not None or _MISSING in search.missing:
        return
    problem = search.problem
    search.graph = store.graph(problem.key)
    if search.graph is not None:
        return
    if not _path(store.folder, problem.key).exists():
        for _ in range(TRIES):
            try:
                search.graph = await evaluator.graph(problem)
            except ProblemError as error:
                # It may still run: the referee's word on that comes with the first evaluation.
                _LOG.info("problem %s has no operator graph: %s", problem.label, error)
                search.missing.add(_MISSING)
                return
            except EvaluatorError as error:
                _LOG.warning("the graph of %s could not be traced: %s", problem.label, error)
                reason = str(error)
            else:
                store.put_graph(problem.key, search.graph)
                return
        _keep(_path(store.folder, problem.key), reason)
    search.missing.add(_MISSING)


def _keep(path: Path, reason: str) -> None:
    """Write down why there is no graph."""
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text(reason + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"the file {path} cannot be written: {error.strerror}") from error


def _path(folder: Path, problem_key: str) -> Path:
    return folder / "untraced" / f"{problem_key}.txt"
