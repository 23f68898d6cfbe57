"""`evokernel verify RUN`: check every elite again, and withdraw what fails."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

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
    from collections.abc import Iterator, Sequence

    from archives.evaluation import Evaluation
    from archives.records import RunRecord
    from evaluator.evaluator import Evaluator
    from evokernel.another_gpu import CheckedOn
    from evokernel.rechecking import Finding
    from evokernel.sanitizing import Sanitizer
    from problems.problem import Problem

__all__ = ["evaluator_of", "sanitizer_of", "verify"]

_WITHDRAWN = 1
_NO_VERDICT = 3
_INTERRUPTED = 130


def verify(
    run: RunArgument,
    level: LevelOption = None,
    id: IdOption = None,
    sanitize: Annotated[
        bool,
        typer.Option(
            "--sanitize",
            help="Call each elite under NVIDIA's compute-sanitizer too: accesses out of bounds "
            "withdraw it, races are shown.",
        ),
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to verify on, by one referee there. Default: here."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify all elites of a run again, on new secret inputs; withdraw what fails.

    A run of a GPU is checked on another one of that name, where this process may use one
    (CUDA_VISIBLE_DEVICES); with --ray-address on the one that Ray chooses.

    Exit codes: 0 all elites hold, 1 some were withdrawn, 2 wrong usage, 3 of some the host or the
    problem lets nothing be said.
    """
    import asyncio

    from archives.store import Store
    from evokernel.another_gpu import checked_on
    from evokernel.rechecking import Outcome, recheck
    from problems.errors import ConfigError

    if sanitize and ray_address is not None:
        raise ConfigError(
            "--sanitize looks at kernels on a GPU of this machine: leave out --ray-address"
        )
    with Store.open(run, write=True) as store:
        chosen = None
        if level is not None or id is not None:
            chosen = (find_problem(store, level, id),)
        record = store.run()
        evaluator = (
            evaluator_of(record) if ray_address is None else _on_cluster(record, ray_address)
        )
        sanitizer = sanitizer_of(record, evaluator) if sanitize else None
        try:
            findings, unable = asyncio.run(
                recheck(store, evaluator, problems=chosen, sanitizer=sanitizer, told=_tell)
            )
        except KeyboardInterrupt:
            done = "the verdicts told so far are recorded"
            typer.echo(f"evokernel: stopped; {done}, the next verify begins anew", err=True)
            raise typer.Exit(_INTERRUPTED) from None
    place = checked_on(record.device, findings)
    if as_json:
        print_json(
            {
                "checked_on": _place_as_json(place),
                "elites": [_as_json(finding) for finding in findings],
                "not_run": [
                    {"level": problem.level, "id": problem.id, "reason": reason}
                    for problem, reason in unable
                ],
            }
        )
    else:
        _print(findings, unable, place)
    if any(finding.outcome is Outcome.WITHDRAWN for finding in findings):
        raise typer.Exit(_WITHDRAWN)
    if unable or any(finding.outcome is Outcome.UNSURE for finding in findings):
        raise typer.Exit(_NO_VERDICT)


def evaluator_of(run: RunRecord) -> Evaluator:
    """Return a referee in this process for a device like a run's, held to what that reached.

    Raises:
        EvaluatorError: There is no such device.
    """
    from evaluator.local import LocalEvaluator
    from evaluator.referee.referee import new_referee
    from evokernel.another_gpu import number_of_another
    from evokernel.deadlines import kept_deadlines

    kind = "cpu" if run.device is None else run.device.kind
    index = 0 if run.device is None or kind == "cpu" else number_of_another(run.device)
    referee = new_referee(kind, index, kept_deadlines(run, kind))
    return LocalEvaluator(referee, rates=run.rates)


def _on_cluster(run: RunRecord, address: str) -> Evaluator:
    """One referee of a Ray cluster, held to what the run's device reached."""
    from evaluator.pool import Pool
    from evokernel.deadlines import kept_deadlines

    device = "cpu" if run.device is None else run.device.kind
    return Pool(
        device=device,
        num_actors=1,
        address=address,
        calibrate=False,
        rates=run.rates,
        deadlines=kept_deadlines(run, device),
    )


def sanitizer_of(run: RunRecord, evaluator: Evaluator) -> Sanitizer:
    """Return what has elites of a run looked at by compute-sanitizer.

    Raises:
        ConfigError: It is not installed, or the run was not measured on a GPU.
    """
    from typing import cast

    from evokernel.sanitizing import Sanitizer, Tool, find_tool

    return Sanitizer(cast("Tool", evaluator), find_tool(run.device))


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
        "spread": None if after is None else after.facts.spread,
        "sanitizer": [
            {"check": one.check, "errors": one.errors, "log": one.log} for one in finding.sanitized
        ],
    }


def _place_as_json(place: CheckedOn | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "name": place.name,
        "uuid": place.uuid,
        "run_uuid": place.run_uuid,
        "another": place.is_another,
        "measured_there_before": place.num_before,
    }


def _print(
    findings: Sequence[Finding], unable: Sequence[tuple[Problem, str]], place: CheckedOn | None
) -> None:
    out = console()
    table = Table(box=SIMPLE_HEAD)
    for name in ("problem", "candidate", "outcome"):
        table.add_column(name)
    for name in ("before", "now", "99 % low", "spread"):
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
            _spread(finding.after),
            "" if finding.after is None else finding.after.reason,
        )
    out.print(table)
    counts = Counter(finding.outcome.value for finding in findings)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    out.print(f"{len(findings)} elites: {said or 'none to verify'}", highlight=False)
    if place is not None:
        out.print(str(place), markup=False, highlight=False, soft_wrap=True)
    for line in _sanitized_lines(findings):
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    for problem, reason in unable:
        out.print(f"{problem.label} does not run here: {reason}", markup=False, highlight=False)


def _sanitized_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """What compute-sanitizer found, and what it could not look at."""
    for finding in findings:
        for one in finding.sanitized:
            who = f"{finding.problem.label}, {finding.candidate[:12]}, {one.check}"
            if one.errors is None:
                yield f"{who}: not looked at to the end: {one.log}"
            elif one.errors:
                yield f"{who}: {one.errors} found\n{one.log}"


def _spread(evaluation: Evaluation | None) -> str:
    spread = None if evaluation is None else evaluation.facts.spread
    return spread if isinstance(spread, str) else number(spread, ".1g")


def _low(evaluation: Evaluation | None) -> float | None:
    return None if evaluation is None or evaluation.interval is None else evaluation.interval.low
