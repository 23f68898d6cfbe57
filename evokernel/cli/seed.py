"""`evokernel seed`: give a run a kernel written by a human."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evokernel.cli.reading import (
    IdOption,
    LevelOption,
    RunArgument,
    find_problem,
    open_run,
)
from evokernel.cli.sitting import conduct
from problems.errors import StoreError

if TYPE_CHECKING:
    from archives.store import Store
    from evokernel.launch import Plan

__all__ = ["seed"]


def seed(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(help="Python file that defines ModelNew.")],
    level: LevelOption = None,
    id: IdOption = None,
) -> None:
    """Add a human kernel to a run.

    A live engine takes it up at the problem's next generation; in a run that nobody works on it
    is evaluated at once.
    """
    from archives.records import RunState
    from operators.seeds import check_kernel

    source = check_kernel(file)
    with open_run(run) as store:
        problem = find_problem(store, level, id)
        store.request_seed(problem.key, file.stem, source)
        state = store.run().state
    typer.echo(f"evokernel: {file} is a seed of problem {problem.label}", err=True)
    held = _take_over(run)
    if isinstance(held, StoreError):
        if state is RunState.RUNNING:
            typer.echo("evokernel: the engine at work takes it up at its next generation", err=True)
            return
        raise held
    store, plan = held
    with store:
        conduct(store, plan)


def _take_over(run: Path) -> tuple[Store, Plan] | StoreError:
    """The run, open for writing; or why it cannot be: mostly, an engine is at work on it."""
    from evokernel.launch import reopen

    try:
        return reopen(run)
    except StoreError as error:
        return error
