"""`evokernel verify RUN`: check every elite again, and withdraw what fails."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from evokernel.cli.reading import (
    IdOption,
    JsonOption,
    LevelOption,
    RunArgument,
    console,
    find_problem,
    number,
    print_json,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archives.evaluation import Evaluation
    from archives.records import RunRecord
    from evaluator.evaluator import Evaluator
    from evokernel.rechecking import Finding
    from problems.problem import Problem

__all__ = ["evaluator_of", "verify"]

_WITHDRAWN = 1
_NO_VERDICT = 3


def verify(
    run: RunArgument,
    level: LevelOption = None,
    id: IdOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify all elites of a run again, on new secret inputs; withdraw what fails.

    Exit codes: 0 all elites hold, 1 some were withdrawn, 2 wrong usage, 3 of some the host or the
    problem lets nothing be said.
    """
    import asyncio

    from archives.store import Store
    from evokernel.rechecking import Outcome, recheck

    with Store.open(run, write=True) as store:
        chosen = None
        if level is not None or id is not None:
            chosen = (find_problem(store, level, id),)
        findings, unable = asyncio.run(
            recheck(store, evaluator_of(store.run()), problems=chosen, told=_tell)
        )
    if as_json:
        print_json(
            {
                "elites": [_as_json(finding) for finding in findings],
                "not_run": [
                    {"level": problem.level, "id": problem.id, "reason": reason}
                    for problem, reason in unable
                ],
            }
        )
    else:
        _print(findings, unable)
    if any(finding.outcome is Outcome.WITHDRAWN for finding in findings):
        raise typer.Exit(_WITHDRAWN)
    if unable or any(finding.outcome is Outcome.UNSURE for finding in findings):
        raise typer.Exit(_NO_VERDICT)


def evaluator_of(run: RunRecord) -> Evaluator:
    """Return a referee in this process for a device like a run's, held to what that reached."""
    from evaluator.local import LocalEvaluator

    return LocalEvaluator(device="cpu" if run.device is None else run.device.kind, rates=run.rates)


def _tell(finding: Finding) -> None:
    """Say at once what became of an elite, for people who wait."""
    typer.echo(
        f"evokernel: {finding.problem.label}, {finding.candidate[:12]}: {finding.outcome.value}",
        err=True,
    )


def _as_json(finding: Finding) -> dict[str, Any]:
    after = finding.after
    return {
        "level": finding.problem.level,
        "id": finding.problem.id,
        "name": finding.problem.name,
        "candidate": finding.candidate,
        "outcome": finding.outcome.value,
        "speedup_before": None if finding.before is None else finding.before.speedup,
        "speedup": None if after is None else after.speedup,
        "speedup_low": None if after is None or after.interval is None else after.interval.low,
        "status": None if after is None else after.status.value,
        "reason": "" if after is None else after.reason,
    }


def _print(findings: Sequence[Finding], unable: Sequence[tuple[Problem, str]]) -> None:
    out = console()
    table = Table(box=SIMPLE_HEAD)
    for name in ("problem", "candidate", "outcome"):
        table.add_column(name)
    for name in ("before", "now", "99 % low"):
        table.add_column(name, justify="right")
    table.add_column("reason")
    for finding in findings:
        low = _low(finding.after)
        table.add_row(
            finding.problem.label,
            finding.candidate[:12],
            finding.outcome.value,
            number(None if finding.before is None else finding.before.speedup, ".2f", "x"),
            number(None if finding.after is None else finding.after.speedup, ".2f", "x"),
            number(low, ".2f", "x"),
            "" if finding.after is None else finding.after.reason,
        )
    out.print(table)
    counts = Counter(finding.outcome.value for finding in findings)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    out.print(f"{len(findings)} elites: {said or 'none to verify'}", highlight=False)
    for problem, reason in unable:
        out.print(f"{problem.label} does not run here: {reason}", markup=False, highlight=False)


def _low(evaluation: Evaluation | None) -> float | None:
    return None if evaluation is None or evaluation.interval is None else evaluation.interval.low
