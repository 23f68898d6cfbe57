"""`evokernel report RUN`: what a run reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from evokernel.cli.compat import CompatOption, comparison_json, print_comparison
from evokernel.cli.reading import JsonOption, RunArgument, console, number, open_run, print_json
from evokernel.fast_p import OWN_SHARE

if TYPE_CHECKING:
    from archives.rates import Rates
    from evokernel.fast_p import Summary
    from evokernel.problem_report import ProblemReport
    from evokernel.report import Report

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
            "fastest torch that is no less accurate, and against torch.compile. Default: the one "
            "that the run found when it began."
        ),
    ] = None,
    compat: CompatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a run reached: fast_p, geometric means, each problem, each operator."""
    from evokernel.baseline_file import load_baseline
    from evokernel.compat import judge_best
    from evokernel.report import read_report
    from evokernel.report_json import report_to_json

    known = None if baseline is None else load_baseline(baseline)
    with open_run(run) as store:
        found = read_report(store, known)
        judged = judge_best(store, found) if compat is not None else None
    if as_json:
        compared = {} if judged is None else {"kernelbench": comparison_json(judged)}
        print_json({**report_to_json(found), **compared})
        return
    print_report(found, console())
    if judged is not None:
        print_comparison(judged, console())


def print_report(report: Report, out: Console) -> None:
    """Print a report for people: headline first, then figures, problems and operators."""
    out.print(_headline(report))
    for text in _circumstances(report):
        out.print(text, style="dim", highlight=False)
    title = "Share of problems faster than p times the reference"
    out.print(_figures(title, report.standard, report.matched))
    if (rest := report.without_loose) is not None:
        title = (
            f"The same without the {len(report.loose)} of which KernelBench's tolerance proves "
            f"nothing: {rest.num_problems} problems"
        )
        out.print(_figures(title, rest.standard, rest.matched))
    for text in _device_lines(report):
        out.print(text, highlight=False)
    out.print(_problems(report.problems))
    for line in report.problems:
        if line.reason:
            ended = line.best is None or not line.counts
            said = line.status if ended else "given up before its end"
            text = f"{line.problem.label} {said}: {line.reason}"
            out.print(text, markup=False, highlight=False, soft_wrap=True)
        if line.light_says:
            text = f"{line.problem.label}: {line.light_says}"
            out.print(text, markup=False, highlight=False, soft_wrap=True)
    if report.operators:
        out.print(_operators(report))


def _headline(report: Report) -> str:
    """The sure share at 1 and the geometric mean: matched where that is known."""
    counted = sum(line.counts for line in report.problems)
    summary, of_those = report.standard, ""
    if report.matched is not None:
        summary, counted = report.matched, report.num_matched
    elif report.device is not None and report.device.kind == "cuda":
        of_those = "against eager torch at its defaults, "
    sure = summary.fast_p_sure[1.0]
    whose = " with a kernel of their own"
    if report.counts_library:
        whose = ", library kernels allowed"
    if report.problems and not any(line.counts for line in report.problems):
        return f"[bold]{report.name}[/bold] ({report.state}): no problem counts, each is degenerate"
    if not counted or sure is None:
        return f"[bold]{report.name}[/bold]: no problem to report on yet"
    return (
        f"[bold]{report.name}[/bold] ({report.state}): [bold]{round(sure * counted)} of {counted}"
        f"[/bold] problems surely faster{whose}, geometric mean "
        f"[bold]{number(summary.geomean_with_fallback)}x[/bold] over all with fallback, "
        + of_those
        + _over_correct(summary.geomean_correct)
    )


def _over_correct(mean: float | None) -> str:
    return "no correct candidate yet" if mean is None else f"{mean:.2f}x over correct ones"


def _circumstances(report: Report) -> list[str]:
    """Where and how it was measured, and what was left out."""
    device = "not measured yet" if report.device is None else str(report.device)
    counts = report.counts
    sizes = report.scale if report.precision == "fp32" else f"{report.scale} in {report.precision}"
    return [
        f"scale {sizes} · device {device} · referee {report.referee_version or 'unknown'} · "
        f"noise floor {report.noise_floor:.1%}",
        f"{counts.attempts} attempts, {counts.evaluations} evaluations, "
        f"{counts.verifications} verifications",
        *_device_facts(report),
        *_library_policy(report),
        *_omissions(report),
    ]


def _device_facts(report: Report) -> Iterator[str]:
    """What is known of the device, and how far its numbers may be trusted."""
    kind = None if report.device is None else report.device.kind
    if report.baseline is not None:
        yield (
            f"matched and compiled speedups: baseline of {report.baseline.date}, torch "
            f"{report.baseline.versions.get('torch', 'unknown')}"
        )
    elif kind == "cuda":
        yield (
            "No baseline of this device is known, so nothing is matched: measure one with "
            "'evokernel baseline', then give it with --baseline."
        )
    if kind == "cuda" and report.climbs_by_matched:
        yield (
            "The search climbed by the matched speedup: of each problem the best candidate by that "
            "one is shown, with both its speedups."
        )
    if report.rates is not None and kind == "cuda":
        yield _measured(report.rates)
    if report.noisy:
        yield (
            "The host was too noisy to calibrate: a noise floor of "
            f"{report.noise_floor:.0%} is assumed."
        )
    if kind == "cpu":
        sizes = " on reduced sizes" if report.scale in _REDUCED else ""
        yield f"CPU numbers{sizes} are not KernelBench numbers."


def _library_policy(report: Report) -> Iterator[str]:
    """What library work was worth, where that is another thing than elsewhere."""
    if report.counts_library:
        yield (
            "Library work is allowed (evaluation.library=allow): it counts in all figures, in "
            "fast_p sure too, as kernels of one's own do; column own tells them apart."
        )
    if report.library == "reject":
        yield (
            "Library work is rejected (evaluation.library=reject), with less than "
            f"{OWN_SHARE:.0%} of the time in own kernels: {report.counts.library_work}."
        )


def _omissions(report: Report) -> Iterator[str]:
    """What does not count, and why; and what counts, though little may follow from it."""
    sentences = {
        "Without a verdict because the host was too noisy": report.counts.unstable,
        "Impossible, since no program on this device is so fast, and kept out of every archive": (
            report.counts.impossible
        ),
        "Left out of the figures because degenerate": report.count("degenerate"),
        "Skipped, and counted as not solved": report.count("skipped"),
        "With a speedup of the search alone, not verified and never sure": (
            report.count("unverified")
        ),
    }
    yield from (f"{words}: {number}." for words, number in sentences.items() if number)
    named = {
        "Counted, though the reference takes hardly longer than a launch": report.short,
        "Counted here, where the bound follows the outputs, though KernelBench's tolerance proves "
        "nothing of them": report.loose,
    }
    for words, lines in named.items():
        if lines:
            yield f"{words}: {len(lines)} ({', '.join(line.problem.label for line in lines)})."


def _device_lines(report: Report) -> Iterator[str]:
    """How the results stand against compiled torch and against the device."""
    if report.over_best is not None:
        yield (
            "Over the fastest of eager, compiled and autotuned torch: geometric mean "
            f"{number(report.over_best.geomean_with_fallback, '.2f', 'x')} with fallback, of "
            f"{report.num_over_best} problems."
        )
    shares = report.bytes_shares
    if shares:
        yield (
            f"Share of the datasheet's bandwidth, least bytes over time: median "
            f"{median(shares):.2f} of {len(shares)} problems bound by memory."
        )


def _measured(rates: Rates) -> str:
    units = {"fp32": rates.fp32, "TF32": rates.tf32, "16 bits": rates.fp16}
    products = ", ".join(f"{rate:,.0f} ({name})" for name, rate in units.items() if rate)
    return (
        f"measured there: {rates.read_gbps:,.0f} GB/s read, {rates.write_gbps:,.0f} written, "
        f"{rates.copy_gbps:,.0f} copied; products at {products} TFLOP/s"
    )


def _figures(title: str, standard: Summary, matched: Summary | None) -> Table:
    figures = {"standard": standard}
    if matched is not None:
        figures["matched"] = matched
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for p in standard.fast_p:
        table.add_column(f"{p:g}", justify="right")
    table.add_column("geomean correct", justify="right")
    table.add_column("with fallback", justify="right")
    for name, summary in figures.items():
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
