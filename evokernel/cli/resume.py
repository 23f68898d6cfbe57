"""`evokernel resume`: go on with a run that was interrupted."""

from __future__ import annotations

import typer

from evokernel.cli.reading import RunArgument
from evokernel.cli.sitting import conduct

__all__ = ["resume"]


def resume(run: RunArgument) -> None:
    """Go on with a run after Ctrl-C, a crash or a spent budget; to the same end."""
    from evokernel.launch import reopen

    store, plan = reopen(run)
    with store:
        for complaint in plan.complaints:
            typer.echo(f"evokernel: left out: {complaint}", err=True)
        conduct(store, plan)
