"""What Inductor wrote for the problems of a run, kept beside its store.

Compiling takes a while and may come out differently on another day: a run that goes on, or is
replayed, works with what was written at first. Texts are large and are read by one operator, so
they are files, one for each problem: `RUN/lifted/KEY.json.gz`.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.config import OperatorsConfig
from evokernel.search import ProblemSearch
from operators.compiler import LIFTED_SETS, ON_CPU
from problems.errors import EvaluatorError, StoreError
from problems.lifted import OPTION_SETS, SETS_OF, Lifted
from problems.problem import Problem

__all__ = ["LIFTING_OPERATOR", "TRIES", "lift_once", "lifted_code", "option_sets", "read_lifted"]

LIFTING_OPERATOR = "compiler"
"""The operator that wants Inductor's code."""
TRIES = 2
_DAMAGES = (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, AttributeError)
"""What reading a file raises that was cut off or written by somebody else."""
_LOG = logging.getLogger(__name__)


def option_sets(config: OperatorsConfig, device_kind: str) -> tuple[str, ...]:
    """Return the names of the sets of options that a run wants compiled; empty: none.

    Args:
        config: Of the run's operators.
        device_kind: Of what it is measured on, "cuda" or "cpu".
    """
    settings = config.settings.get(LIFTING_OPERATOR, {})
    if device_kind == "cpu" and not ON_CPU.of(settings):
        return ()
    return SETS_OF[device_kind][: LIFTED_SETS.of(settings)]


async def lift_once(
    store: Store, evaluator: Evaluator, search: ProblemSearch, wanted: Sequence[str]
) -> None:
    """Get Inductor's code for the reference of a problem, for the operator that wants it.

    Args:
        store: The run's, for its folder.
        evaluator: Lets Inductor compile.
        search: The problem's search; it is given the code.
        wanted: Names of the sets of options, as `option_sets` says.

    Raises:
        StoreError: The file of an earlier answer is damaged, or a new one cannot be written.
    """
    if search.lifted or "lifted" in search.missing:
        return
    search.lifted = await lifted_code(store.folder, evaluator, search.problem, wanted)
    if not search.lifted:
        search.missing.add("lifted")


async def lifted_code(
    folder: Path,
    evaluator: Evaluator,
    problem: Problem,
    wanted: Sequence[str] = tuple(OPTION_SETS),
) -> tuple[Lifted, ...]:
    """Return what Inductor writes for a problem; what was written before, where it was.

    Args:
        folder: The run's folder.
        evaluator: Lets Inductor compile.
        problem: The problem.
        wanted: Names of the sets of options that it compiles under.

    Returns:
        One for each set of options; empty where the evaluator failed, `TRIES` times in a row: that
        is kept too, so that a resumed or replayed run goes the same way.

    Raises:
        StoreError: The file of an earlier answer is damaged, or a new one cannot be written.
    """
    known = read_lifted(folder, problem.key)
    if known is not None:
        return known
    found: tuple[Lifted, ...] = ()
    for _ in range(TRIES):
        try:
            found = await evaluator.lift(problem, wanted)
            break
        except EvaluatorError as error:
            _LOG.warning("Inductor's code for %s could not be had: %s", problem.label, error)
    for one in found:
        if one.reason:
            _LOG.info("%s, options %s: %s %s", problem.label, one.options, one.reason, one.detail)
    _write(_path(folder, problem.key), found)
    return found


def read_lifted(folder: Path, problem_key: str) -> tuple[Lifted, ...] | None:
    """Return what is kept for a problem; None where nothing is.

    Raises:
        StoreError: The file is damaged.
    """
    path = _path(folder, problem_key)
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return tuple(Lifted.from_json(one) for one in json.load(file))
    except FileNotFoundError:
        return None
    except _DAMAGES as error:
        raise StoreError(
            f"the file {path} with Inductor's code is damaged ({error}): remove it, and the code "
            "is generated anew"
        ) from error


def _write(path: Path, found: tuple[Lifted, ...]) -> None:
    """Write the file at once: whoever is interrupted leaves none behind."""
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(exist_ok=True)
        with gzip.open(partial, "wt", encoding="utf-8") as file:
            json.dump([one.to_json() for one in found], file)
        os.replace(partial, path)
    except OSError as error:
        raise StoreError(f"the file {path} cannot be written: {error.strerror}") from error


def _path(folder: Path, problem_key: str) -> Path:
    return folder / "lifted" / f"{problem_key}.json.gz"
