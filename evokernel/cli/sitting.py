"""What `run`, `resume` and `seed` share: a sitting with progress, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from archives.store import Store
    from evaluator.evaluator import Evaluator
    from evokernel.launch import Plan

__all__ = ["conduct"]

_INTERRUPTED = 130


def conduct(
    store: Store,
    plan: Plan,
    *,
    evaluator: Evaluator | None = None,
    replayed: Store | None = None,
) -> None:
    """Run until the end, Ctrl-C or the budget; then print the report, or how to go on.

    Args:
        store: Open for writing.
        plan: What the run is.
        evaluator: Whoever measures; None: the pool of this machine.
        replayed: Another run, open, from whose record models are answered for.
    """
    from archives.records import RunState
    from evokernel.cli.reading import console
    from evokernel.cli.report import print_report
    from evokernel.launch import sit
    from evokernel.progress import show_progress
    from evokernel.report import read_report
    from problems.errors import EvaluatorError, ProblemError

    hint = f"go on with: evokernel resume {store.folder}"
    if replayed is not None:
        hint = f"repeat it with: evokernel run --replay {replayed.folder}"
    count = len(plan.problems)
    typer.echo(
        f"evokernel: {count} problem{'s' if count != 1 else ''} at {plan.scale} scale, on "
        f"{plan.device_words}, kept in {store.folder}",
        err=True,
    )
    try:
        ending = sit(store, plan, evaluator=evaluator, display=show_progress, replayed=replayed)
    except KeyboardInterrupt:
        typer.echo(f"evokernel: stopped; nothing recorded is lost, {hint}", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    except EvaluatorError as error:
        raise EvaluatorError(f"{error}; nothing recorded is lost, {hint}") from error
    for label, reason in ending.skipped:
        typer.echo(f"evokernel: skipped {label}: {reason}", err=True)
    report = read_report(store)
    if report.count("skipped") == count:
        raise ProblemError("no problem of this run could be searched, the reasons are above")
    print_report(report, console())
    if ending.state is RunState.STOPPED:
        hint += "" if replayed is not None else _new_limit(store, plan)
        typer.echo(f"evokernel: stopped because {ending.reason}; {hint}", err=True)


def _new_limit(store: Store, plan: Plan) -> str:
    """The option without which a resumed run would stop at once; "" where none is needed."""
    limit = plan.config.budget.max_evaluations
    if limit is None or store.counts().evaluations < limit:
        return ""
    return f" --max-evaluations {2 * limit}"
