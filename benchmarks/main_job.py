"""Does a finished demo run keep what the main job promises?

    python benchmarks/main_job.py RUN [--evaluate-elites]

Prints one line for each promise: whether it is kept, and what was found. With --evaluate-elites
the best elite of each problem is judged once more as `evokernel eval` does it: three fresh
processes, fresh secret inputs. Exit code 0: all kept; 1: at least one is not; 2: no such run,
or the evaluator failed.

Time and memory of a run are not in its store: `benchmarks/peak_memory.py` measures both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from archives.descriptors import DEFAULT_AXES, axes_named
from archives.evaluation import Evaluation, Status
from archives.records import MIGRATE, ProblemStatus, RunState
from archives.store import Store
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.local import LocalEvaluator
from evokernel.report import Report, best_of, read_report
from problems.errors import EvoKernelError
from problems.problem import Problem

TRIES = 3
"""A host that was too busy to tell is asked again."""
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
        is_kept: Whether the run keeps it.
        found: What the run has instead, or at least.
    """

    text: str
    is_kept: bool
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


def judge_elites(verdicts: Mapping[str, Evaluation]) -> Clause:
    """Judge the second verdicts on the best elites.

    Args:
        verdicts: By the problem's label.
    """
    failed = [
        f"{label}: {verdict.status} {verdict.reason}".rstrip()
        for label, verdict in verdicts.items()
        if verdict.status is not Status.OK
    ]
    return Clause(
        text="the best elite of each problem passes evokernel eval",
        is_kept=bool(verdicts) and not failed,
        found=f"{len(verdicts) - len(failed)} of {len(verdicts)} pass" + _list(failed),
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


async def evaluate_elites(store: Store) -> dict[str, Evaluation]:
    """Judge the best elite of each problem on fresh secret inputs, one after the other."""
    evaluator = LocalEvaluator()
    await evaluator.start()
    verdicts: dict[str, Evaluation] = {}
    try:
        for problem in store.problems():
            best = best_of(store, problem)
            if best is not None:
                verdicts[problem.label] = await _evaluate(evaluator, store, problem, best.candidate)
    finally:
        await evaluator.close()
    return verdicts


async def _evaluate(
    evaluator: LocalEvaluator, store: Store, problem: Problem, candidate_id: str
) -> Evaluation:
    request = EvaluationRequest(
        problem=problem,
        candidate=store.candidate(candidate_id, problem.key),
        purpose=Purpose.VERIFY,
    )
    for _ in range(TRIES):
        verdict = await evaluator.evaluate(request)
        if verdict.status is not Status.UNSTABLE:
            break
    print(f"  {problem.label}: {verdict.status} {verdict.reason}".rstrip(), file=sys.stderr)
    return verdict


def main() -> int:
    """Print the verdict on each promise; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument(
        "--evaluate-elites", action="store_true", help="judge the best elites once more (minutes)"
    )
    arguments = parser.parse_args()
    try:
        with Store.open(arguments.run) as store:
            clauses = judge(store)
            _print(clauses)
            if arguments.evaluate_elites:
                clauses.append(judge_elites(asyncio.run(evaluate_elites(store))))
                _print(clauses[-1:])
    except EvoKernelError as error:
        print(f"main_job: {error}", file=sys.stderr)
        return 2
    return 0 if all(clause.is_kept for clause in clauses) else 1


def _print(clauses: Sequence[Clause]) -> None:
    for clause in clauses:
        mark = "kept    " if clause.is_kept else "NOT KEPT"
        print(f"{mark}  {clause.text}: {clause.found}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
