"""The full search against lesser ones on the device itself, at equal time.

    python benchmarks/ablation_live.py run FOLDER [--device cuda] [--problems 23,33,...]
        [--scale official] [--minutes 1.5] [--seeds 3]
    python benchmarks/ablation_live.py table FOLDER

`run` searches some problems of level 1 together, once for each variant and seed, seed by seed. It
goes on where it was stopped; a search that was stopped itself begins anew, since it would have had
more time. Each search has its own minutes, the verification of what it found among them. What
counts is the objective of each problem's verified best, the matched speedup where the device has a
baseline; none counts as 1. `table` prints Markdown: geometric means, and ratios to the full
search, both with the intervals of `ablation.py`.

Beside its operators there a full search rewrites here, on a GPU; the compiler is left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import evokernel
from benchmarks.ablation_figures import Estimate, estimate
from benchmarks.ablation_variants import FULL, VARIANTS
from benchmarks.json_lines import drop_unfinished, whole_lines
from evokernel.report import Report
from problems.errors import ConfigError, EvoKernelError

PROBLEMS = "23,33,42,82,87,95"
"""Of the ten of `ablation.py` six whose spaces are large: softmax, a norm, pooling, a depthwise and
a pointwise convolution, a loss."""
NO_REWRITE = "no rewrite"
_GREEDY, _RANDOM = "best-first, no archive", "random configurations"
COMPARED = (FULL, _GREEDY, _RANDOM, NO_REWRITE)
VERIFIED = "verified"

Search = Callable[[str, int, Path], Report]
"""Searches with a variant and a seed, and keeps the run in a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one search found for one problem.

    Attributes:
        variant: Name of the variant.
        seed: Root of the search's random streams.
        problem: Label of the problem.
        speedup: The verified objective of its best; 1.0 where there is none.
        evaluations: Of the whole search, over all its problems.
        device: Where it was measured, and by which referee.
    """

    variant: str
    seed: int
    problem: str
    speedup: float
    evaluations: int
    device: str


def settings_of(variant: str, num_problems: int) -> list[str]:
    """Return the settings of a variant, as for `--set`: time alone ends a search."""
    chosen = VARIANTS[FULL if variant == NO_REWRITE else variant]
    rewrites = variant in (FULL, _GREEDY)
    operators = [*chosen.operators, "rewrite"] if rewrites else chosen.operators
    return [
        "search.generations=100000",
        "search.stop_at_ceiling=false",
        f"search.together={num_problems}",
        "evaluation.failures=1000",
        f"operators.use={json.dumps(operators)}",
        *chosen.settings,
    ]


def compare(folder: Path, seeds: int, search: Search) -> None:
    """Search what a folder has no outcome of yet.

    Args:
        folder: Where runs and outcomes are kept.
        seeds: Searches of each variant.
        search: Does it.

    Raises:
        EvoKernelError: A search failed, or the folder holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "outcomes.jsonl"
    done = {(one.variant, one.seed) for one in read_outcomes(path)}
    drop_unfinished(path)
    for seed in range(seeds):
        for variant in COMPARED:
            if (variant, seed) in done:
                continue
            run = folder / f"{variant.replace(', ', '-').replace(' ', '-')}-{seed}"
            if run.exists():
                shutil.rmtree(run)
            outcomes = list(_outcomes(variant, seed, search(variant, seed, run)))
            # All of a search or nothing: a line is one write.
            with path.open("a") as file:
                file.write(json.dumps([asdict(one) for one in outcomes]) + "\n")


def read_outcomes(path: Path) -> list[Outcome]:
    """Return the outcomes in a file; none where it is absent.

    Raises:
        ConfigError: It is another kind of file.
    """
    try:
        return [Outcome(**one) for line in whole_lines(path) for one in json.loads(line) if line]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path} does not hold outcomes of this script: {error}") from error


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the tables of a page.

    Args:
        outcomes: At least one of each variant, problem and seed.

    Raises:
        ConfigError: Some are missing.
    """
    problems = sorted({one.problem for one in outcomes})
    seeds = sorted({one.seed for one in outcomes})
    by_key = {(one.variant, one.problem, one.seed): one for one in outcomes}
    wanted = [(v, p, s) for v in COMPARED for p in problems for s in seeds]
    missing = [key for key in wanted if key not in by_key]
    if missing or not outcomes:
        raise ConfigError(
            f"{len(missing)} outcomes are missing, such as {missing[:1]}: let `run` end"
        )
    shape = (len(COMPARED), len(problems), len(seeds))
    logs = np.log([by_key[key].speedup for key in wanted]).reshape(shape)
    lines = [
        f"{len(problems)} problems, {len(seeds)} seeds; measured on "
        + "; ".join(sorted({one.device for one in outcomes})),
        "",
        f"| search | {' | '.join(problems)} | geometric mean | over full search | evaluations |",
        "|---|" + "---|" * (len(problems) + 3),
    ]
    for row, variant in enumerate(COMPARED):
        means = [f"{mean:.2f}x" for mean in np.exp(logs[row].mean(axis=1))]
        ratio = "-" if variant == FULL else _told(estimate(logs[row] - logs[0]))
        tried = {(one.seed, one.evaluations) for one in outcomes if one.variant == variant}
        evaluations = sum(count for _, count in tried)
        cells = [variant, *means, _told(estimate(logs[row])), ratio, str(evaluations)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _outcomes(variant: str, seed: int, report: Report) -> Iterator[Outcome]:
    for one in report.problems:
        best = one.best if one.status == VERIFIED else None
        yield Outcome(
            variant=variant,
            seed=seed,
            problem=one.problem.label,
            speedup=max(best.objective_speedup if best else 1.0, 1.0),
            evaluations=report.counts.evaluations,
            device=f"{report.device}, referee `{report.referee_version}`",
        )


def _told(one: Estimate) -> str:
    return f"{one.value:.2f}x ({one.low:.2f} to {one.high:.2f})"


def _search(options: argparse.Namespace, variant: str, seed: int, folder: Path) -> Report:
    print(f"{variant}, seed {seed}", flush=True)
    return evokernel.run(
        folder=folder,
        settings=settings_of(variant, len(options.problems.split(","))),
        level=1,
        problems=options.problems,
        scale=options.scale,
        device=options.device,
        max_minutes=options.minutes,
        rng_seed=seed,
    )


def main() -> int:
    """Do what the command line says; return the exit code."""
    options = _options()
    try:
        if options.verb == "run":
            compare(options.folder, options.seeds, partial(_search, options))
        else:
            print(markdown(read_outcomes(options.folder / "outcomes.jsonl")))
    except EvoKernelError as error:
        print(f"ablation_live: {error}", file=sys.stderr)
        return 2
    return 0


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run", help="search what has no outcome yet")
    two = verbs.add_parser("table", help="print what the searches found")
    for verb in (one, two):
        verb.add_argument("folder", type=Path, help="where runs and outcomes are kept")
    one.add_argument("--device", default="auto", help="auto, cpu or cuda")
    one.add_argument("--problems", default=PROBLEMS, help="of level 1, such as 23,33")
    one.add_argument("--scale", help="official, small or tiny; default: official on a GPU")
    one.add_argument("--minutes", type=float, default=1.5, help="of each search")
    one.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
