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
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.config import RunConfig, resolve
from evokernel.devices import device_kind
from evokernel.launch import create_run, default_folder, make_plan, reopen, sit
from evokernel.replay import ReplayEvaluator, create_replay
from evokernel.report import Report, read_report
from evokernel.verdict import judge_once
from problems.errors import ConfigError
from problems.problem import Problem, Scale

__all__ = ["evaluate", "replay", "resume", "run"]


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
            max_evaluations, llm (names of models), max_cost, seeds, from_run, source,
            problem_file, scale, precision, device, ray_address, rng_seed.

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


def replay(recorded: Path, *, folder: Path | None = None) -> Report:
    """Repeat a run from its record and return the report; measures nothing, asks nobody.

    Args:
        recorded: Where the run is kept that is to be repeated.
        folder: Where the repetition is kept; None: a new folder under `runs/`.

    Raises:
        StoreError: There is no such run, or the new folder holds one.
        EvaluatorError: The run has measured nothing, or did not measure what is asked for now.
    """
    with Store.open(recorded) as old:
        evaluator = ReplayEvaluator(old)
        store, plan = create_replay(old, folder or default_folder(datetime.now()))
        with store:
            sit(store, plan, evaluator=evaluator, replayed=old)
            return read_report(store)


def resume(
    folder: Path,
    *,
    generations: int | None = None,
    max_minutes: float | None = None,
    max_evaluations: int | None = None,
    llm: Sequence[str] | None = None,
    max_cost: float | None = None,
    evaluator: Evaluator | None = None,
) -> Report:
    """Go on with an interrupted, stopped or finished run and return its report.

    Args:
        folder: Where the run is kept.
        generations: A new number of generations; None: it stays.
        max_minutes: A new limit for this sitting; None: it stays.
        max_evaluations: A new limit for the whole run; None: it stays.
        llm: Models to ask from now on; None: they stay.
        max_cost: A new limit in dollars for the whole run; None: it stays.
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
        "llm.models": tuple(llm) if llm is not None else None,
        "llm.max_cost_usd": max_cost,
    }
    store, plan = reopen(folder, changes)
    with store:
        sit(store, plan, evaluator=evaluator)
        return read_report(store)


def evaluate(
    reference_source: str,
    candidate_source: str,
    *,
    precision: str = "fp32",
    device: str = "auto",
    evaluator: Evaluator | None = None,
) -> Evaluation:
    """Judge a candidate against a reference, on fresh secret inputs.

    Args:
        reference_source: Text of a module with `Model`, `get_inputs` and `get_init_inputs`.
        candidate_source: Text of a module with `ModelNew`.
        precision: Floating-point type of inputs, parameters and buffers: "fp32", "fp16" or "bf16".
        device: Where to measure: "auto" (a GPU where there is one), "cpu" or "cuda".
        evaluator: Whoever measures; None: a referee in this process.

    Raises:
        ConfigError: There is no such device here.
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
        precision=precision,
    )
    kind = device_kind(device) if evaluator is None else "cpu"
    return asyncio.run(judge_once(problem, candidate_source, evaluator, device=kind))


_FLAGS = {
    "level": "problems.level",
    "problems": "problems.ids",
    "generations": "search.generations",
    "max_minutes": "budget.max_minutes",
    "max_evaluations": "budget.max_evaluations",
    "llm": "llm.models",
    "max_cost": "llm.max_cost_usd",
    "seeds": "problems.seeds",
    "from_run": "problems.from_run",
    "source": "problems.source",
    "problem_file": "problems.file",
    "scale": "problems.scale",
    "precision": "problems.precision",
    "device": "problems.device",
    "ray_address": "evaluation.ray_address",
    "rng_seed": "rng_seed",
}


def _plain(value: object) -> object:
    """A value as the configuration takes it: paths as text, a list of names as a tuple."""
    if isinstance(value, list):
        return tuple(value)
    return str(value.resolve()) if isinstance(value, Path) else value
