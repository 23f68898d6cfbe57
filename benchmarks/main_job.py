"""Does a finished demo run keep what the main job promises?

    python benchmarks/main_job.py RUN [--evaluate-elites [--best] [--quick] [--resume]]

Prints one line for each promise: whether it is kept, and what was found. With --evaluate-elites
every elite of every cell is judged once more as `evokernel eval` does it: fresh secret inputs,
three fresh processes, its own winning configuration; about 3 s each. One referee judges them all,
and one that the host was too busy to judge is judged up to twice more when the others are done,
which the printed line says.

--best judges the best elite of each problem only. --quick times as in the search, in one process,
which takes a quarter of the time. --resume takes up what an interrupted pass has found, and adds to
its file; without it the file is begun anew.

Exit code 0: all kept; 1: at least one is not; 2: no such run, or the evaluator does not start;
3: nothing failed, but some elites have no verdict; 130: interrupted.

Time and memory of a run are not in its store: `benchmarks/peak_memory.py` measures both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from archives.descriptors import DEFAULT_AXES, axes_named
from archives.records import MIGRATE, ProblemStatus, RunState
from archives.store import Store
from benchmarks.second_verdicts import FILE, TRIES, Pass, judge_again, pass_over
from evaluator.evaluator import Evaluator, Purpose
from evaluator.local import LocalEvaluator
from evokernel.report import Report, read_report
from problems.errors import EvoKernelError

FOR_GPUS = {"compiler", "rewrite"}
"""Operators that have nothing to work on where there is no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """What is promised.

    Attributes:
        problems: Problems of the run.
        scale: Their scale.
        generations: Finished generations of each problem after the seeds.
        sure: Problems whose lower bound is surely above 1.
        geomean: Geometric mean of the speedups, fallback included.
        values: Values that each axis takes over the run.
        cells: Occupied cells of the median archive.
    """

    problems: int = 100
    scale: str = "small"
    generations: int = 2
    sure: int = 25
    geomean: float = 1.2
    values: int = 3
    cells: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One promise.

    Attributes:
        text: What is promised.
        is_kept: Whether the run keeps it; None: that cannot be told.
        found: What the run has instead, or at least.
    """

    text: str
    is_kept: bool | None
    found: str


def judge(store: Store, goals: Goals | None = None) -> list[Clause]:
    """Judge what a run's store can tell.

    Args:
        store: Open for reading.
        goals: What is promised; None: what the demo promises.
    """
    goals = goals or Goals()
    report = read_report(store)
    return [
        _complete(store, report, goals),
        *_speed(report, goals),
        _operators(store, report),
        _migrants(store),
        *_diversity(store, report, goals),
    ]


def judge_elites(going: Pass, *, only_best: bool = False) -> Clause:
    """Judge what was said of the elites once more.

    Args:
        going: The pass, also one that was interrupted.
        only_best: Whether it is over the best elite of each problem only.
    """
    who = "the best elite of each problem" if only_best else "every elite"
    how = "evokernel eval" if going.purpose is Purpose.VERIFY else "at the search's effort"
    failed, unsure, missing = going.failed, going.unsure, going.missing
    found = f"{going.passed} of {going.num_elites} pass, which hold {going.num_cells} cells"
    if failed:
        found += f"; {len(failed)} failed{_list([str(one) for one in failed])}"
    if unsure:
        found += f"; {len(unsure)} without a verdict{_list([str(one) for one in unsure])}"
    if missing:
        found += f"; {missing} not judged"
    undecided = bool(unsure or missing) and not failed
    return Clause(
        text=f"{who} passes {how}",
        is_kept=None if undecided else bool(going.num_elites) and not failed,
        found=f"{found}; {going.evaluations} evaluations, {going.rate:.2f}/s; one that was too "
        f"noisy or got no answer was judged up to {TRIES - 1} times more",
    )


def _complete(store: Store, report: Report, goals: Goals) -> Clause:
    short = [
        problem.label
        for problem, state in zip(store.problems(), store.problem_states(), strict=True)
        if state.status is ProblemStatus.SKIPPED
        or (state.status is ProblemStatus.OPEN and (state.generation or 0) < goals.generations)
    ]
    is_kept = (
        report.state == RunState.FINISHED
        and report.scale == goals.scale
        and len(report.problems) >= goals.problems
        and not short
    )
    return Clause(
        text=f"{goals.problems} problems at {goals.scale} scale, {goals.generations} generations",
        is_kept=is_kept,
        found=f"{report.state}, {len(report.problems)} problems at {report.scale} scale, "
        f"{len(short)} skipped or cut short{_list(short)}",
    )


def _speed(report: Report, goals: Goals) -> list[Clause]:
    counted = sum(line.counts for line in report.problems)
    sure = round((report.standard.fast_p_sure[1.0] or 0.0) * counted)
    geomean = report.standard.geomean_with_fallback
    return [
        Clause(
            text=f"fast_p sure above 1 on at least {goals.sure} problems",
            is_kept=sure >= goals.sure,
            found=f"{sure} of {counted}, noise floor {100 * report.noise_floor:.1f} %",
        ),
        Clause(
            text=f"geometric mean with fallback of at least {goals.geomean:g}",
            is_kept=geomean is not None and geomean >= goals.geomean,
            found="none" if geomean is None else f"{geomean:.3f}",
        ),
    ]


def _operators(store: Store, report: Report) -> Clause:
    accepted = {name: 0 for name in _config(store, "operators", "use", ()) if ":" not in name}
    if report.device is None or report.device.kind == "cpu":
        accepted = {name: count for name, count in accepted.items() if name not in FOR_GPUS}
    accepted |= {line.operator: line.accepted for line in report.operators}
    return Clause(
        text="every operator has an accepted child",
        is_kept=bool(accepted) and min(accepted.values()) > 0,
        found=", ".join(f"{name} {count}" for name, count in sorted(accepted.items())) or "none",
    )


def _migrants(store: Store) -> Clause:
    attempts = store.attempts()
    migrants = {attempt.slot for attempt in attempts if attempt.operator == MIGRATE}
    parents = {
        parent
        for attempt in attempts
        if attempt.operator != MIGRATE
        for parent in attempt.parents
        if parent in migrants
    }
    return Clause(
        text="at least one migrant became a parent",
        is_kept=bool(parents),
        found=f"{len(parents)} of {len(migrants)} migrants",
    )


def _diversity(store: Store, report: Report, goals: Goals) -> list[Clause]:
    axes = axes_named(_config(store, "archive", "axes", DEFAULT_AXES))
    cells = {elite.cell for problem in store.problems() for elite in store.elites(problem.key)}
    clauses = []
    for position, axis in enumerate(axes):
        bins = sorted({cell[position] for cell in cells})
        clauses.append(
            Clause(
                text=f"the axis {axis.name!r} takes at least {goals.values} values",
                is_kept=len(bins) >= goals.values,
                found=f"{len(bins)}: {', '.join(axis.labels[index] for index in bins)}",
            )
        )
    sizes = [line.num_cells for line in report.problems if line.status not in _WITHOUT_ARCHIVE]
    middle = median(sizes) if sizes else 0
    clauses.append(
        Clause(
            text=f"the median archive has at least {goals.cells} occupied cells",
            is_kept=middle >= goals.cells,
            found=f"{middle:g} over {len(sizes)} archives",
        )
    )
    return clauses


_WITHOUT_ARCHIVE = ("skipped", "degenerate")


def _config(store: Store, group: str, key: str, default: Sequence[str]) -> Sequence[str]:
    config: dict[str, Any] = json.loads(store.run().config_json or "{}")
    values: Sequence[str] = config.get(group, {}).get(key, default)
    return values


def _list(names: Sequence[str]) -> str:
    return f" ({'; '.join(names)})" if names else ""


def evaluate_elites(
    store: Store, evaluator: Evaluator, *, only_best: bool, quick: bool, resume: bool
) -> tuple[Clause, bool]:
    """Judge elites once more; tell what came of it and whether it came to its end.

    Raises:
        EvaluatorError: The evaluator does not start.
    """
    purpose = Purpose.SEARCH if quick else Purpose.VERIFY
    going = pass_over(store, purpose, only_best=only_best)
    is_whole = True
    try:
        asyncio.run(judge_again(going, evaluator, store.folder / FILE, resume=resume))
    except KeyboardInterrupt:
        is_whole = False
    return judge_elites(going, only_best=only_best), is_whole


def evaluator_like(store: Store) -> Evaluator:
    """Return a referee as `evokernel eval` starts it, for a device like a run's."""
    device = store.run().device
    kind = "cpu" if device is None else device.kind
    return LocalEvaluator(device=kind, rate=kind == "cuda")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict on each promise; return the exit code."""
    options = _options(arguments)
    is_whole = True
    try:
        with Store.open(options.run) as store:
            clauses = judge(store)
            _print(clauses)
            if options.evaluate_elites:
                clause, is_whole = evaluate_elites(
                    store,
                    evaluator_like(store),
                    only_best=options.best,
                    quick=options.quick,
                    resume=options.resume,
                )
                clauses.append(clause)
                _print(clauses[-1:])
    except (EvoKernelError, OSError) as error:
        print(f"main_job: {error}", file=sys.stderr)
        return 2
    if not is_whole:
        print("main_job: interrupted; --resume goes on", file=sys.stderr)
        return _INTERRUPTED
    if any(clause.is_kept is False for clause in clauses):
        return 1
    return _NO_VERDICT if any(clause.is_kept is None for clause in clauses) else 0


_NO_VERDICT = 3
_INTERRUPTED = 130


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument(
        "--evaluate-elites", action="store_true", help="judge the elites once more (minutes)"
    )
    parser.add_argument("--best", action="store_true", help="only the best of each problem")
    parser.add_argument("--quick", action="store_true", help="at the effort of the search")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted pass")
    options = parser.parse_args(arguments)
    if (options.best or options.quick or options.resume) and not options.evaluate_elites:
        parser.error("--best, --quick and --resume go with --evaluate-elites")
    return options


_MARKS = {True: "kept    ", False: "NOT KEPT", None: "UNSURE  "}


def _print(clauses: Sequence[Clause]) -> None:
    for clause in clauses:
        print(f"{_MARKS[clause.is_kept]}  {clause.text}: {clause.found}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
