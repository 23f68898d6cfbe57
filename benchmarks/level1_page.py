"""What a run of level 1 on a GPU reached, beside torch and Inductor's lifted code: one page.

    python benchmarks/level1_page.py RUN FOLDER [--baseline FILE]
        [--times tests/evaluator/h200_times.json]

Writes into FOLDER `table.md` (the figures over all problems, and a line for each), `report.json`
(as `evokernel report --json`), `config.json`, and `run.tar.xz`, from which the run resumes.
The best kernels' sources are written by `evokernel export RUN kernels`.

`--baseline` names what torch reached on such a device, where more was measured of it since than
the run keeps. `--times` names a file of times of torch with max-autotune on such a device, for
problems whose baseline lacks them: their ratio to eager is taken from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from archives.evaluation import Evaluation, Status
from archives.store import Store
from evokernel.baseline_file import load_baseline
from evokernel.fast_p import Score, Summary, summarise
from evokernel.problem_report import ProblemReport
from evokernel.report import Report, read_report, score_of
from evokernel.report_json import report_to_json
from problems.errors import EvoKernelError

LIFTED = "compiler"
"""The operator whose programs are Inductor's."""
VERIFIED = "verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One problem.

    Attributes:
        report: What the run's report says of it.
        is_searched: Whether it had its turn.
        lifted: The best program of Inductor's, as the search saw it; None: there is none.
        over_torch: Speedup over the fastest of eager, compiled and autotuned torch; None: unknown,
            or nothing was found.
    """

    report: ProblemReport
    is_searched: bool
    lifted: Evaluation | None
    over_torch: float | None


def main() -> int:
    """Write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--times", type=Path)
    options = parser.parse_args()
    try:
        with Store.open(options.run) as store:
            baseline = load_baseline(options.baseline) if options.baseline else None
            report = read_report(store, baseline)
            ratios = autotuned_ratios(options.times) if options.times else {}
            lines = [line_of(store, one, ratios) for one in report.problems if one.counts]
            config = store.run().config_json
    except EvoKernelError as error:
        print(f"level1_page: {error}", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "table.md").write_text(page(report, lines))
    text = json.dumps(report_to_json(report), indent=1, sort_keys=True)
    (options.folder / "report.json").write_text(text + "\n")
    text = json.dumps(json.loads(config), indent=1, sort_keys=True)
    (options.folder / "config.json").write_text(text + "\n")
    with tarfile.open(options.folder / "run.tar.xz", "w:xz") as archive:
        archive.add(options.run, arcname=options.run.name)
    return 0


def autotuned_ratios(path: Path) -> dict[int, float]:
    """Read how long max-autotune takes of level 1's problems, relative to eager, by id."""
    rows = json.loads(path.read_text())["rows"]
    return {
        row["id"]: row["ms"]["max_autotune"] / row["ms"]["eager"]
        for row in rows
        if row["level"] == 1 and row["ms"].get("max_autotune")
    }


def line_of(store: Store, report: ProblemReport, ratios: dict[int, float]) -> Line:
    """Gather what is known of a problem.

    Args:
        store: The run's.
        report: What its report says.
        ratios: max-autotune over eager, by id, where the baseline has no such time.
    """
    key = report.problem.key
    attempts = list(store.attempts(key))
    verdicts = [
        store.evaluation(key, attempt.result)
        for attempt in attempts
        if attempt.operator == LIFTED and attempt.result is not None
    ]
    right = [one for one in verdicts if one is not None and one.status is Status.OK]
    lifted = max(right, key=lambda one: one.speedup or 0.0, default=None)
    return Line(
        report=report,
        is_searched=bool(attempts),
        lifted=lifted,
        over_torch=_over_torch(report, ratios),
    )


def _over_torch(report: ProblemReport, ratios: dict[int, float]) -> float | None:
    """The speedup over the fastest of torch's three settings, where all three are known."""
    compiled, autotuned = report.speedup_over("compile"), report.speedup_over("max_autotune")
    if report.speedup is None or compiled is None:
        return None
    if autotuned is None:
        ratio = ratios.get(report.problem.id)
        if ratio is None:
            return None
        autotuned = report.speedup * ratio
    return min(report.speedup, compiled, autotuned)


def page(report: Report, lines: Sequence[Line]) -> str:
    """Return the page as Markdown."""
    searched = [line for line in lines if line.is_searched]
    head = (
        f"Run `{report.name}` ({report.state}) on {report.device}, referee "
        f"`{report.referee_version}`: {len(searched)} of {len(lines)} problems had their turn, "
        f"{report.counts.evaluations} evaluations, {report.counts.verifications} verifications."
    )
    if report.counts_library:
        head += " Library work counts as own kernels do (`evaluation.library=allow`)."
    parts = [head, _figures(report, lines, "all; no turn counts as 1.0")]
    if 0 < len(searched) < len(lines):
        parts.append(_figures(report, searched, "those that had their turn"))
    table = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1), *map(_row, searched)]
    return "\n\n".join([*parts, "\n".join(table)]) + "\n"


def _figures(report: Report, lines: Sequence[Line], which: str) -> str:
    """The issue's figures over some problems."""

    def summary(speedups: Iterable[float | None]) -> Summary:
        scores = [score_of(line.report, one) for line, one in zip(lines, speedups, strict=True)]
        return summarise(scores, report.noise_floor, counts_library=report.counts_library)

    standard = summary(line.report.speedup for line in lines)
    matched = summary(line.report.matched_speedup for line in lines)
    over_torch = summary(line.over_torch for line in lines)
    lifted = summarise(
        [_lifted_score(line.lifted) for line in lines],
        report.noise_floor,
        counts_library=report.counts_library,
    )
    shares = [s for s in (line.report.bytes_share for line in lines) if s is not None]
    over_lifted = (matched.geomean_with_fallback or 1.0) / (lifted.geomean_with_fallback or 1.0)
    rows = [
        ("fast_1.05 sure, matched", matched.fast_p_sure[1.05]),
        ("fast_2 sure, matched", matched.fast_p_sure[2.0]),
        ("geometric mean, matched, with fallback", matched.geomean_with_fallback),
        ("fast_1.05 sure, standard", standard.fast_p_sure[1.05]),
        ("fast_2 sure, standard", standard.fast_p_sure[2.0]),
        ("geometric mean, standard, with fallback", standard.geomean_with_fallback),
        (
            "over the best of eager, torch.compile and max-autotune, with fallback",
            over_torch.geomean_with_fallback,
        ),
        ("lifted Inductor alone: fast_1.05, matched", lifted.fast_p[1.05]),
        ("lifted Inductor alone: fast_2, matched", lifted.fast_p[2.0]),
        ("lifted Inductor alone, matched, with fallback", lifted.geomean_with_fallback),
        ("matched over lifted Inductor alone", over_lifted),
        (
            f"median share of the datasheet's bytes, {len(shares)} memory-bound problems",
            median(shares) if shares else None,
        ),
    ]
    body = "\n".join(f"| {name} | {_number(value)} |" for name, value in rows)
    return f"| {len(lines)} problems: {which} | |\n|---|---|\n{body}"


def _lifted_score(verdict: Evaluation | None) -> Score:
    """The same of what a search saw of Inductor's program: no lower bound."""
    if verdict is None:
        return Score()
    share = verdict.facts.own_kernel_share
    return Score(speedup=_matched(verdict), own_kernel_share=share)


def _matched(verdict: Evaluation | None) -> float | None:
    return None if verdict is None else verdict.matched_speedup or verdict.speedup


_HEAD = (
    "| problem | status | standard | lower bound | matched | lifted, matched | over torch.compile "
    "| over the best of three | ms | reference ms | share of ceiling | share of bytes |"
)


def _row(line: Line) -> str:
    report = line.report
    best = None if report.best is None else report.best.evaluation
    cells = [
        f"{report.problem.id} {report.problem.name.strip('_').replace('_', ' ')}",
        report.status,
        _number(report.speedup),
        _number(report.speedup_low if report.status == VERIFIED else None),
        _number(report.matched_speedup),
        _number(_matched(line.lifted)),
        _number(report.speedup_over("compile")),
        _number(line.over_torch),
        _number(None if best is None else best.latency_ms, 3),
        _number(None if best is None else best.reference_ms, 3),
        _share(report.roofline_share),
        _share(report.bytes_share),
    ]
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


if __name__ == "__main__":
    sys.exit(main())
