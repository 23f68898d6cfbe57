"""What the reading commands share: opening a run, finding things in it, printing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from problems.errors import ConfigError

if TYPE_CHECKING:
    from archives.evaluation import Evaluation
    from archives.store import Store
    from problems.problem import Problem

__all__ = [
    "CandidateArgument",
    "IdOption",
    "JsonOption",
    "LevelOption",
    "RunArgument",
    "console",
    "evaluation_json",
    "find_candidate",
    "find_problem",
    "no_verdict_json",
    "number",
    "open_run",
    "print_json",
]

_LEAST_WIDTH = 120

RunArgument = Annotated[Path, typer.Argument(help="Folder of the run, such as runs/demo.")]
CandidateArgument = Annotated[
    str, typer.Argument(help="Id of a candidate; its first digits are enough.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
LevelOption = Annotated[int | None, typer.Option(help="Level of the problem.")]
IdOption = Annotated[int | None, typer.Option("--id", help="Id of the problem in its level.")]


def open_run(folder: Path) -> Store:
    """Open a run for reading.

    Raises:
        StoreError: There is no readable run in the folder.
    """
    from archives.store import Store

    return Store.open(folder)


def find_problem(store: Store, level: int | None, id: int | None) -> Problem:
    """Return the problem with an id; the level matters where a run has several.

    Raises:
        ConfigError: No problem or several fit; the message names what there is.
    """
    problems = store.problems()
    found = [
        problem
        for problem in problems
        if (id is None or problem.id == id) and (level is None or problem.level == level)
    ]
    if len(found) == 1:
        return found[0]
    wanted = " and ".join(
        [f"--level {level}"] * (level is not None) + [f"--id {id}"] * (id is not None)
    )
    if not found:
        raise ConfigError(
            f"the run {store.folder} has no problem with {wanted}, it has {_listed(problems)}"
        )
    raise ConfigError(
        f"the run {store.folder} has several problems that fit: name one with --level and --id "
        f"out of {_listed(found)}"
    )


def find_candidate(store: Store, prefix: str) -> tuple[Problem, str]:
    """Return the problem and the full id of the candidate whose id starts with the digits.

    Raises:
        StoreError: No candidate or several have such an id.
    """
    candidate = store.candidate(prefix)
    key = store.problem_of(candidate.id)
    problem = next(problem for problem in store.problems() if problem.key == key)
    return problem, candidate.id


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON-able data for people's scripts.

    The keys come first that the command `eval` promises; the rest is everything else known.
    """
    interval, facts = evaluation.interval, evaluation.facts
    return {
        "status": evaluation.status.value,
        "reason": evaluation.reason,
        "rung": evaluation.rung.name.lower(),
        "speedup": evaluation.speedup,
        "speedup_low": None if interval is None else interval.low,
        "speedup_high": None if interval is None else interval.high,
        "matched_speedup": evaluation.matched_speedup,
        "latency_ms": evaluation.latency_ms,
        "reference_ms": evaluation.reference_ms,
        "own_kernel_share": facts.own_kernel_share,
        "launches": facts.launches,
        "reuse": None if facts.reuse is None else facts.reuse.value,
        "work": facts.work,
        "vector_bits": facts.vector_bits,
        "registers": facts.registers,
        "shared_bytes": facts.shared_bytes,
        "programs": facts.programs,
        "streams": facts.streams,
        "error": evaluation.error,
        "error_bound": evaluation.error_bound,
        "roofline_share": evaluation.roofline_share,
        "configuration": None
        if evaluation.configuration is None
        else dict(evaluation.configuration),
        "configurations": [
            {
                "configuration": dict(result.configuration),
                "status": result.status.value,
                "latency_ms": result.latency_ms,
            }
            for result in evaluation.configurations
        ],
        "isolation": evaluation.isolation,
        "device": None if evaluation.device is None else str(evaluation.device),
        "threads": None if evaluation.device is None else evaluation.device.threads,
        "referee_version": evaluation.referee_version,
        "cost_s": evaluation.cost_s,
        "log": evaluation.log,
    }


def no_verdict_json(log: str) -> dict[str, Any]:
    """Return what the command `eval` promises, for the case that nothing was found out.

    Args:
        log: Why there is no verdict.
    """
    promised = (
        "status",
        "reason",
        "rung",
        "speedup",
        "speedup_low",
        "latency_ms",
        "reference_ms",
        "own_kernel_share",
    )
    return {**dict.fromkeys(promised), "log": log}


def print_json(data: object) -> None:
    """Print data as JSON to stdout."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def console() -> Console:
    """Return a console on stdout; wide enough for a table where it is no terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=max(found.width, _LEAST_WIDTH))


def number(value: float | None, form: str = ".2f", unit: str = "") -> str:
    """Return a number for a table; "-" where it is not known."""
    return "-" if value is None else f"{value:{form}}{unit}"


def _listed(problems: list[Problem]) -> str:
    shown = ", ".join(f"{problem.level}/{problem.id}" for problem in problems[:12])
    return shown + (f" and {len(problems) - 12} more" if len(problems) > 12 else "")
