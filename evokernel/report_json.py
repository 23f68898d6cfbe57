"""The report of a run as JSON-able data, for people's scripts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from evokernel.baselines import COMPILED
from evokernel.fast_p import THRESHOLDS, Summary
from evokernel.problem_report import ProblemReport
from evokernel.report import Figures, Report

__all__ = ["report_to_json"]


def report_to_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON-able data."""
    return {
        "run": report.name,
        "state": report.state,
        "scale": report.scale,
        "precision": report.precision,
        "device": None if report.device is None else str(report.device),
        "threads": None if report.device is None else report.device.threads,
        "noise_floor": report.noise_floor,
        "noisy": report.noisy,
        "referee_version": report.referee_version,
        "library": report.library,
        **_summary_json(report.standard),
        "matched": None
        if report.matched is None
        else {**_summary_json(report.matched), "num_problems": report.num_matched},
        "without_loose": _figures_json(report.without_loose),
        "over_best_of_torch": None
        if report.over_best is None
        else {**_summary_json(report.over_best), "num_problems": report.num_over_best},
        "bytes_share": _bytes_json(report.bytes_shares),
        "rates": None if report.rates is None else report.rates.to_json(),
        "baseline": None
        if report.baseline is None
        else {
            "device": report.baseline.device,
            "date": report.baseline.date,
            "versions": dict(report.baseline.versions),
        },
        "num_problems": sum(line.counts for line in report.problems),
        "num_degenerate": report.count("degenerate"),
        "num_loose": len(report.loose),
        "num_short": len(report.short),
        "num_skipped": report.count("skipped"),
        "num_attempts": report.counts.attempts,
        "num_evaluations": report.counts.evaluations,
        "num_verifications": report.counts.verifications,
        "num_unstable": report.counts.unstable,
        "num_impossible": report.counts.impossible,
        "num_library_work": report.counts.library_work,
        "problems": [_line_json(line) for line in report.problems],
        "operators": [
            {
                "operator": line.operator,
                "attempts": line.attempts,
                "evaluated": line.evaluated,
                "accepted": line.accepted,
                "gain": line.gain,
                "cost_s": line.cost_s,
                "credit": line.credit,
            }
            for line in report.operators
        ],
    }


def _summary_json(summary: Summary) -> dict[str, Any]:
    return {
        "fast_p": {f"{p:g}": summary.fast_p[p] for p in THRESHOLDS},
        "fast_p_sure": {f"{p:g}": summary.fast_p_sure[p] for p in THRESHOLDS},
        "fast_p_attainable": {f"{p:g}": summary.fast_p_attainable[p] for p in THRESHOLDS},
        "geomean_correct": summary.geomean_correct,
        "geomean_with_fallback": summary.geomean_with_fallback,
    }


def _figures_json(figures: Figures | None) -> dict[str, Any] | None:
    """The figures over some of the problems, in the form of those over all."""
    if figures is None:
        return None
    matched = figures.matched
    return {
        **_summary_json(figures.standard),
        "num_problems": figures.num_problems,
        "matched": None
        if matched is None
        else {**_summary_json(matched), "num_problems": figures.num_matched},
    }


def _bytes_json(shares: Sequence[float]) -> dict[str, Any]:
    """Shares of the datasheet's bandwidth, over the problems that memory bounds."""
    return {"median": median(shares) if shares else None, "num_problems": len(shares)}


def _line_json(line: ProblemReport) -> dict[str, Any]:
    best = line.best
    evaluation = None if best is None else best.evaluation
    return {
        "level": line.problem.level,
        "id": line.problem.id,
        "name": line.problem.name,
        "status": line.status,
        "reason": line.reason,
        "speedup": line.speedup,
        "speedup_low": line.speedup_low,
        "matched_speedup": line.matched_speedup,
        "objective_speedup": None if best is None else best.objective_speedup,
        "latency_ms": None if evaluation is None else evaluation.latency_ms,
        "reference_ms": None if evaluation is None else evaluation.reference_ms,
        "own_kernel_share": None if evaluation is None else evaluation.facts.own_kernel_share,
        "roofline_share": line.roofline_share,
        "speedup_cap": line.cap,
        **{f"{name}_speedup": line.speedup_over(name) for name in COMPILED},
        "over_best_of_torch": line.over_best_of_torch,
        "bound": None if line.light is None else line.light.bound,
        "light_ms": None if line.light is None else line.light.sol_ms,
        "bytes_share": line.bytes_share,
        "candidate": None if best is None else best.candidate,
        "num_cells": line.num_cells,
    }
