"""`evokernel run`: start a search."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evokernel.cli.sitting import conduct

if TYPE_CHECKING:
    from evokernel.launch import Plan

__all__ = ["run"]

_LABELS_SHOWN = 8


def run(
    level: Annotated[int | None, typer.Option(help="Level of the problems, such as 1.")] = None,
    problems: Annotated[
        str | None, typer.Option(help="Ids within the level, such as 1,19-25. Default: all.")
    ] = None,
    generations: Annotated[
        int | None, typer.Option(help="Generations after the one that holds the seeds.")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="Minutes for the run, final verification included.")
    ] = None,
    max_evaluations: Annotated[
        int | None, typer.Option(help="Candidates to measure at most, verification not counted.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Preset: demo, default, thorough or best-of-n.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="One setting, such as search.islands=6; repeatable."),
    ] = None,
    seeds: Annotated[
        Path | None, typer.Option(help="Folder of human kernels to start from.")
    ] = None,
    from_run: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of another run, whose elites to start from."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(help="Folder of problems in KernelBench's layout.")
    ] = None,
    problem_file: Annotated[
        Path | None, typer.Option(help="One problem file of your own, in place of a level.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            help="Sizes: official, small or tiny. Default: official on a GPU, small on a CPU."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to measure: auto, cpu or cuda.")] = None,
    rng_seed: Annotated[
        int | None, typer.Option(help="Root of the search's random streams. Default: 0.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--run", help="New folder to keep the run in. Default: runs/TIME."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")
    ] = False,
) -> None:
    """Search for kernels that beat the reference programs, and report what was found.

    Values are looked for in the defaults, the preset, --set, and the other options;
    the last one found wins.
    """
    from evokernel.config import resolve
    from evokernel.launch import create_run, default_folder, make_plan

    resolved = resolve(
        preset=preset,
        settings=settings or (),
        flags={
            "problems.level": level,
            "problems.ids": problems,
            "problems.source": _absolute(source),
            "problems.file": _absolute(problem_file),
            "problems.seeds": _absolute(seeds),
            "problems.from_run": _absolute(from_run),
            "problems.scale": scale,
            "problems.device": device,
            "search.generations": generations,
            "budget.max_minutes": max_minutes,
            "budget.max_evaluations": max_evaluations,
            "rng_seed": rng_seed,
        },
    )
    plan = make_plan(resolved)
    for complaint in plan.complaints:
        typer.echo(f"evokernel: left out: {complaint}", err=True)
    if dry_run:
        typer.echo(_describe(plan))
        return
    with create_run(plan, folder or default_folder(datetime.now())) as store:
        conduct(store, plan)


def _absolute(path: Path | None) -> str | None:
    """A path that means the same when the run is resumed from another folder."""
    return None if path is None else str(path.resolve())


def _labels(plan: Plan) -> str:
    """The first problems by name, and how many more there are."""
    shown = ", ".join(problem.label for problem in plan.problems[:_LABELS_SHOWN])
    more = len(plan.problems) - _LABELS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _describe(plan: Plan) -> str:
    search = plan.config.search
    kernels = sum(len(kernels) for kernels in plan.seeds.values())
    return "\n".join(
        (
            f"problems     {len(plan.problems)} at {plan.scale} scale, on {plan.device_words}: "
            f"{_labels(plan)}",
            f"search       {search.mode}: {search.islands} islands, generation 0 and "
            f"{search.generations} more, {search.proposals} children each",
            f"operators    {', '.join(plan.operators)}; {kernels} kernels to start from",
            f"attempts     at most {plan.num_attempts:,}",
            f"evaluations  at most {plan.num_evaluations:,}, and up to "
            f"{len(plan.problems) * plan.config.evaluation.verify_tries:,} verifications",
            f"store        at most {plan.num_bytes:,} bytes",
        )
    )
