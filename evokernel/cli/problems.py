"""`evokernel problems list` and `evokernel problems show`: the bundled catalogue."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.reading import JsonOption, console, print_json

__all__ = ["BundledScale", "problems"]

problems = typer.Typer(no_args_is_help=True, help="List the bundled problems, or show one.")


class BundledScale(StrEnum):
    """Scales of bundled problems."""

    OFFICIAL = "official"
    SMALL = "small"
    TINY = "tiny"


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
        table.add_row(str(problem.id), problem.name, problem.family, "\n".join(problem.notes))
    console().print(table)


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
    typer.echo(problem.source)
