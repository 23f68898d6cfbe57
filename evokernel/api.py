"""The Python interface: what the command line can do, for programs.

import evokernel
report = evokernel.run(level=1, problems="19", generations=2)
evaluation = evokernel.evaluate(reference_source, candidate_source)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from archives.evaluation import Evaluation
from evaluator.evaluator import Evaluator
from evokernel.config import RunConfig, resolve
from evokernel.launch import create_run, default_folder, make_plan, reopen, sit
from evokernel.report import Report, read_report
from evokernel.verdict import judge_once
from problems.errors import ConfigError
from problems.problem import Problem, Scale

__all__ = ["evaluate", "resume", "run"]


def run(
    config: RunConfig | None = None,
    *,
    folder: Path | None = None,
    preset: str | None = None,
    settings: Sequence[str] = (),
    evaluator: Evaluator | None = None,
    **flags: object,
) -> Report:
    """Run a search and return its report.

    Args:
        config: A resolved configuration, such as `evokernel.config.resolve(file=...)` returns;
            None: it is resolved from what follows.
        folder: Where the run is kept; None: a new folder under `runs/`.
        preset: Name of a preset.
        settings: "a.b=c" texts, as `--set`.
        evaluator: Whoever measures; None: the pool of this machine.
        flags: As on the command line: level, problems, generations, max_minutes,
            max_evaluations, seeds, from_run, source, problem_file, scale, device, rng_seed.

    Raises:
        ConfigError: A value is wrong; the sentence says which.
        EvoKernelError: What else can go wrong, by its subclasses.
    """
    unknown = sorted(set(flags) - set(_FLAGS))
    if unknown:
        raise ConfigError(
            f"run has no argument {unknown[0]!r}: it has {', '.join(_FLAGS)}; what else there "
            "is goes into settings=['a.b=c']"
        )
    if config is None:
        named = {_FLAGS[name]: _plain(value) for name, value in flags.items()}
        config = resolve(preset=preset, settings=settings, flags=named)
    elif flags or preset or settings:
        raise ConfigError("run takes a config or its parts, not both: put all into the config")
    plan = make_plan(config)
    with create_run(plan, folder or default_folder(datetime.now())) as store:
        sit(store, plan, evaluator=evaluator)
        return read_report(store)


def resume(
    folder: Path,
    *,
    generations: int | None = None,
    max_minutes: float | None = None,
    max_evaluations: int | None = None,
    evaluator: Evaluator | None = None,
) -> Report:
    """Go on with an interrupted, stopped or finished run and return its report.

    Args:
        folder: Where the run is kept.
        generations: A new number of generations; None: it stays.
        max_minutes: A new limit for this sitting; None: it stays.
        max_evaluations: A new limit for the whole run; None: it stays.
        evaluator: Whoever measures; None: the pool of this machine.

    Raises:
        ConfigError: A value is out of range, or the run was measured on another device.
        StoreError: There is no such run, or another engine holds it.
        EvoKernelError: What else can go wrong, by its subclasses.
    """
    changes = {
        "search.generations": generations,
        "budget.max_minutes": max_minutes,
        "budget.max_evaluations": max_evaluations,
    }
    store, plan = reopen(folder, changes)
    with store:
        sit(store, plan, evaluator=evaluator)
        return read_report(store)


def evaluate(
    reference_source: str, candidate_source: str, *, evaluator: Evaluator | None = None
) -> Evaluation:
    """Judge a candidate against a reference, on fresh secret inputs.

    Args:
        reference_source: Text of a module with `Model`, `get_inputs` and `get_init_inputs`.
        candidate_source: Text of a module with `ModelNew`.
        evaluator: Whoever measures; None: a referee in this process.

    Raises:
        ProblemError: The reference does not load or run.
        EvaluatorError: There is no verdict.
    """
    problem = Problem(
        level=0,
        id=1,
        name="reference",
        family="custom",
        scale=Scale.CUSTOM,
        source=reference_source,
    )
    return asyncio.run(judge_once(problem, candidate_source, evaluator))


_FLAGS = {
    "level": "problems.level",
    "problems": "problems.ids",
    "generations": "search.generations",
    "max_minutes": "budget.max_minutes",
    "max_evaluations": "budget.max_evaluations",
    "seeds": "problems.seeds",
    "from_run": "problems.from_run",
    "source": "problems.source",
    "problem_file": "problems.file",
    "scale": "problems.scale",
    "device": "problems.device",
    "rng_seed": "rng_seed",
}


def _plain(value: object) -> object:
    return str(value.resolve()) if isinstance(value, Path) else value
