"""`evokernel report RUN`: what a run reached."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from evokernel.cli.reading import JsonOption, RunArgument, console, number, open_run, print_json

if TYPE_CHECKING:
    from evokernel.fast_p import Summary
    from evokernel.report import ProblemReport, Report

__all__ = ["print_report", "report"]

_REDUCED = ("small", "tiny")
_COMPILED = {"compile": "compiled", "max_autotune": "autotuned"}
"""Columns for speedups over a baseline's compiled settings."""


def report(
    run: RunArgument,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="File of `evokernel baseline` from the same device, for speedups against the "
            "fastest torch that is no less accurate, and against torch.compile."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a run reached: fast_p, geometric means, each problem, each operator."""
    from evokernel.baseline_file import load_baseline
    from evokernel.report import read_report
    from evokernel.report_json import report_to_json

    known = None if baseline is None else load_baseline(baseline)
    with open_run(run) as store:
        found = read_report(store, known)
    if as_json:
        print_json(report_to_json(found))
    else:
        print_report(found, console())


def print_report(report: Report, out: Console) -> None:
    """Print a report for people: headline first, then figures, problems and operators."""
    out.print(_headline(report))
    for text in _circumstances(report):
        out.print(text, style="dim", highlight=False)
    out.print(_figures(report.standard, report.matched))
    out.print(_problems(report.problems))
    for line in report.problems:
        if line.reason:
            text = f"{line.problem.label} {line.status}: {line.reason}"
            out.print(text, markup=False, highlight=False, soft_wrap=True)
    if report.operators:
        out.print(_operators(report))


def _headline(report: Report) -> str:
    """The sure share at 1 and the geometric mean, against the matched baseline."""
    counted = sum(line.counts for line in report.problems)
    sure = report.matched.fast_p_sure[1.0]
    if not counted or sure is None:
        return f"[bold]{report.name}[/bold]: no problem to report on yet"
    return (
        f"[bold]{report.name}[/bold] ({report.state}): [bold]{round(sure * counted)} of {counted}"
        f"[/bold] problems surely faster with a kernel of their own, geometric mean "
        f"[bold]{number(report.matched.geomean_with_fallback)}x[/bold] over all with fallback, "
        + _over_correct(report.matched.geomean_correct)
    )


def _over_correct(mean: float | None) -> str:
    return "no correct candidate yet" if mean is None else f"{mean:.2f}x over correct ones"


def _circumstances(report: Report) -> list[str]:
    device = "not measured yet" if report.device is None else str(report.device)
    lines = [
        f"scale {report.scale} · device {device} · referee {report.referee_version or 'unknown'} · "
        f"noise floor {report.noise_floor:.1%}",
        f"{report.counts.attempts} attempts, {report.counts.evaluations} evaluations, "
        f"{report.counts.verifications} verifications",
    ]
    if report.baseline is not None:
        lines.append(
            f"matched and compiled speedups: baseline of {report.baseline.date}, torch "
            f"{report.baseline.versions.get('torch', 'unknown')}"
        )
    if report.noisy:
        lines.append(
            "The host was too noisy to calibrate: a noise floor of "
            f"{report.noise_floor:.0%} is assumed."
        )
    if report.counts.unstable:
        lines.append(f"Without a verdict because the host was too noisy: {report.counts.unstable}.")
    if report.device is not None and report.device.kind == "cpu":
        sizes = " on reduced sizes" if report.scale in _REDUCED else ""
        lines.append(f"CPU numbers{sizes} are not KernelBench numbers.")
    left_out, skipped = report.count("degenerate"), report.count("skipped")
    if left_out:
        lines.append(f"Left out of the figures because degenerate: {left_out}.")
    if skipped:
        lines.append(f"Skipped, and counted as not solved: {skipped}.")
    unverified = report.count("unverified")
    if unverified:
        lines.append(
            f"With a speedup of the search alone, not verified and never sure: {unverified}."
        )
    return lines


def _figures(standard: Summary, matched: Summary) -> Table:
    table = Table(
        title="Share of problems faster than p times the reference",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("")
    for p in standard.fast_p:
        table.add_column(f"{p:g}", justify="right")
    table.add_column("geomean correct", justify="right")
    table.add_column("with fallback", justify="right")
    for name, summary in (("standard", standard), ("matched", matched)):
        means = (summary.geomean_correct, summary.geomean_with_fallback)
        cells = [number(share, ".0%") for share in summary.fast_p.values()]
        table.add_row(f"fast_p, {name}", *cells, *(number(mean, ".2f", "x") for mean in means))
        sure = [number(share, ".0%") for share in summary.fast_p_sure.values()]
        table.add_row(f"fast_p sure, {name}", *sure, "", "")
        if any(share is not None for share in summary.fast_p_attainable.values()):
            most = [number(share, ".0%") for share in summary.fast_p_attainable.values()]
            table.add_row(f"  at the ceiling, {name}", *most, "", "")
    return table


def _problems(lines: tuple[ProblemReport, ...]) -> Table:
    table = Table(title="Problems", title_justify="left", box=SIMPLE_HEAD)
    for name in ("problem", "status"):
        table.add_column(name)
    compiled = [name for name in _COMPILED if any(line.speedup_over(name) for line in lines)]
    is_capped = any(line.cap is not None for line in lines)
    for name in ("speedup", "99 % low", "matched", *(_COMPILED[name] for name in compiled)):
        table.add_column(name, justify="right")
    for name in ("ms", "reference ms", *(("ceiling", "cap") if is_capped else ()), "own", "cells"):
        table.add_column(name, justify="right")
    table.add_column("candidate")
    for line in lines:
        evaluation = None if line.best is None else line.best.evaluation
        table.add_row(
            line.problem.label,
            line.status,
            number(line.speedup, ".2f", "x"),
            number(line.speedup_low, ".2f", "x"),
            number(line.matched_speedup, ".2f", "x"),
            *(number(line.speedup_over(name), ".2f", "x") for name in compiled),
            number(None if evaluation is None else evaluation.latency_ms, ".3f"),
            number(None if evaluation is None else evaluation.reference_ms, ".3f"),
            *(
                (number(line.roofline_share, ".0%"), number(line.cap, ".2f", "x"))
                if is_capped
                else ()
            ),
            number(None if evaluation is None else evaluation.facts.own_kernel_share, ".0%"),
            str(line.num_cells),
            "-" if line.best is None else line.best.candidate[:12],
        )
    return table


def _operators(report: Report) -> Table:
    table = Table(title="Operators", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("operator")
    for name in ("attempts", "evaluated", "accepted", "gain", "seconds", "gain per second"):
        table.add_column(name, justify="right")
    for line in report.operators:
        table.add_row(
            line.operator,
            str(line.attempts),
            str(line.evaluated),
            str(line.accepted),
            number(line.gain),
            number(line.cost_s, ".1f"),
            number(line.credit, ".4f"),
        )
    return table
