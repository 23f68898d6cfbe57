"""`evokernel resume`: go on with a run that was interrupted."""

from __future__ import annotations

from typing import Annotated

import typer

from evokernel.cli.reading import RunArgument
from evokernel.cli.sitting import conduct

__all__ = ["resume"]


def resume(
    run: RunArgument,
    generations: Annotated[
        int | None, typer.Option(help="New number of generations of the run.")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option(help="New limit in minutes, counted from now.")
    ] = None,
    max_evaluations: Annotated[
        int | None,
        typer.Option(help="New limit of candidates to measure, those of before included."),
    ] = None,
    llm: Annotated[
        list[str] | None,
        typer.Option(help="Language model to ask from now on, in place of those before."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(help="New limit in dollars for language models, what is spent included."),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to measure on from now on; local: this machine alone."),
    ] = None,
) -> None:
    """Go on with a run after Ctrl-C, a crash or a spent budget; to the same end.

    New limits, models and addresses take the place of the run's own and are stored with it.
    """
    from evokernel.launch import reopen

    changes = {
        "search.generations": generations,
        "budget.max_minutes": max_minutes,
        "budget.max_evaluations": max_evaluations,
        "llm.models": tuple(llm) if llm else None,
        "llm.max_cost_usd": max_cost,
        "evaluation.ray_address": ray_address,
    }
    store, plan = reopen(run, changes)
    for note in plan.notes:
        typer.echo(f"evokernel: {note}", err=True)
    with store:
        conduct(store, plan)
