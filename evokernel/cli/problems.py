"""`evokernel problems list` and `evokernel problems show`: the bundled catalogue."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.reading import JsonOption, console, print_json

__all__ = ["BundledScale", "Precision", "PrecisionOption", "problems"]

problems = typer.Typer(no_args_is_help=True, help="List the bundled problems, or show one.")


class Precision(StrEnum):
    """Floating-point types of a problem."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"


class BundledScale(StrEnum):
    """Scales of bundled problems."""

    OFFICIAL = "official"
    SMALL = "small"
    TINY = "tiny"


PrecisionOption = Annotated[Precision, typer.Option(help="Type of inputs and weights.")]
_LevelOption = Annotated[int, typer.Option(help="Level of the problems.")]
_ScaleOption = Annotated[BundledScale, typer.Option(help="Sizes of the problem.")]


@problems.command("list")
def list_problems(level: _LevelOption = 1, as_json: JsonOption = False) -> None:
    """List the problems of a level."""
    from problems.catalogue import load_level
    from problems.problem import Scale

    found = load_level(level, Scale.OFFICIAL)
    if as_json:
        print_json(
            [
                {
                    "level": problem.level,
                    "id": problem.id,
                    "name": problem.name,
                    "family": problem.family,
                    "degenerate": problem.degenerate,
                    "loose": problem.loose,
                    "notes": list(problem.notes),
                }
                for problem in found
            ]
        )
        return
    table = Table(box=SIMPLE_HEAD)
    table.add_column("id", justify="right")
    for name in ("name", "family", "notes"):
        table.add_column(name)
    for problem in found:
        remarks = list(problem.notes)
        if problem.degenerate is not None:
            remarks.append(f"degenerate: {problem.degenerate}")
        table.add_row(str(problem.id), problem.name, problem.family, "\n".join(remarks))
    out = console()
    out.print(table)
    sound = sum(problem.degenerate is None for problem in found)
    out.print(f"{sound} problems count, {len(found) - sound} are degenerate", highlight=False)
    loose = sum(problem.loose is not None for problem in found)
    said = f"of {loose} KernelBench's tolerance proves nothing; the bound here does"
    out.print(said, highlight=False)


@problems.command("show")
def show_problem(
    id: Annotated[int, typer.Option("--id", help="Id of the problem in its level.")],
    level: _LevelOption = 1,
    scale: _ScaleOption = BundledScale.OFFICIAL,
    as_json: JsonOption = False,
) -> None:
    """Print the source of a problem."""
    from problems.catalogue import load_level
    from problems.problem import Scale

    (problem,) = load_level(level, Scale(scale.value), [id])
    if as_json:
        print_json(
            {
                "level": problem.level,
                "id": problem.id,
                "name": problem.name,
                "family": problem.family,
                "scale": problem.scale.value,
                "precision": problem.precision,
                "domains": [domain.kind.value for domain in problem.domains],
                "degenerate": problem.degenerate,
                "notes": list(problem.notes),
                "key": problem.key,
                "source": problem.source,
            }
        )
        return
    for note in problem.notes:
        typer.echo(f"# {note}")
    if problem.degenerate is not None:
        typer.echo(f"# degenerate: {problem.degenerate}")
    typer.echo(problem.source)


@problems.command("lint")
def lint_problems(
    file: Annotated[
        Path | None, typer.Argument(help="A problem file of your own. Default: bundled problems.")
    ] = None,
    level: _LevelOption = 1,
    id: Annotated[
        int | None, typer.Option("--id", help="Id of a bundled problem. Default: all.")
    ] = None,
    scale: _ScaleOption = BundledScale.SMALL,
    precision: PrecisionOption = Precision.FP32,
    as_json: JsonOption = False,
) -> None:
    """Run problems on the CPU and tell which say little about a kernel, and why.

    Exit codes: 0 all are sound, 1 some are degenerate or do not run, 2 wrong usage.
    """
    from evaluator.referee.referee import new_referee
    from problems.catalogue import load_level
    from problems.errors import ConfigError, EvaluatorError, ProblemError
    from problems.loaders import load_file
    from problems.problem import Scale

    if file is not None and (id is not None or level != 1 or scale is not BundledScale.SMALL):
        raise ConfigError("--level, --id and --scale choose bundled problems: leave out the file")
    chosen = [] if file is None else [load_file(file)]
    chosen += [] if chosen else load_level(level, Scale(scale.value), None if id is None else [id])
    found: list[dict[str, object]] = []
    referee = new_referee("cpu")
    try:
        referee.start()
        for problem in (replace(one, precision=precision.value) for one in chosen):
            remark = ""
            try:
                seen = referee.lint(problem)
                reason, remark = problem.degenerate or seen.reason, seen.remark
            except (ProblemError, EvaluatorError) as error:
                reason = str(error)
            found.append({"label": problem.label, "degenerate": reason, "remark": remark})
            if not as_json and (reason is not None or remark):
                typer.echo(f"{problem.label}: {reason or f'sound, but {remark}'}")
    finally:
        referee.close()
    flawed = sum(each["degenerate"] is not None for each in found)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{len(found) - flawed} of {len(found)} problems are sound")
    if flawed:
        raise typer.Exit(1)
