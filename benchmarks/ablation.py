"""Which parts of the search matter: variants of it, replayed on recorded tables.

    python benchmarks/ablation.py record FOLDER [--problems 8,21,...] [--evaluations 500]
        [--points 500] [--minutes 10]
    python benchmarks/ablation.py replay FOLDER [--seeds 10] [--evaluations 300] [--jobs 2]
        [--variants NAME ...] --out RUNS.jsonl
    python benchmarks/ablation.py table FOLDER RUNS.jsonl
    python benchmarks/ablation.py plot FOLDER RUNS.jsonl --out PLOTS

`record` measures every point of the sketches' programs, in spaces that are thinned to about
`--points` for each problem, by the real referee; it stops after `--minutes` and goes on where it
was. Each is measured three times, and more often where there are few. `replay` runs the real engine
on the tables, each variant with each seed on each problem, one point for each evaluation. What a
search sees is one of a point's measurements; what counts is the median of the others. `table`
prints Markdown: geometric means, ratios to the full search, both with 99 % intervals from a
bootstrap over problems and over the seeds of each.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from benchmarks.ablation_record import Slice, record
from benchmarks.ablation_replay import Plan, read_runs, replay
from benchmarks.ablation_tables import read_tables, table_paths
from benchmarks.ablation_variants import VARIANTS
from evaluator.local import LocalEvaluator
from problems.catalogue import load_level, parse_ids
from problems.errors import EvoKernelError
from problems.problem import Scale

PROBLEMS = "8,21,23,33,42,82,87,93,95,97"
"""Ten of level 1, each of another kind: a matrix product, an elementwise function, softmax, a
norm, pooling, a depthwise convolution, a pointwise one, a scan, a loss, attention. Six of them have
two or three programs. Plain reductions have 6 to 24 points in all and are left out."""

AFTER = (10, 20, 30, 50, 75, 100, 200, 300)


def main() -> int:
    """Do what the command line says; return the exit code."""
    options = _options()
    try:
        {"record": _record, "replay": _replay, "table": _table, "plot": _plot}[options.verb](
            options
        )
    except EvoKernelError as error:
        print(f"ablation: {error}", file=sys.stderr)
        return 2
    return 0


def _record(options: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    problems = load_level(1, Scale.SMALL, parse_ids(options.problems))
    plan = Slice(evaluations=options.evaluations, points=options.points, end=end)
    asyncio.run(record(options.folder, problems, LocalEvaluator(), plan))


def _replay(options: argparse.Namespace) -> None:
    plan = Plan(
        variants=options.variants,
        seeds=options.seeds,
        evaluations=options.evaluations,
        jobs=options.jobs,
    )
    replay(table_paths(options.folder), options.out, plan)


def _table(options: argparse.Namespace) -> None:
    from benchmarks.ablation_figures import Figures, markdown

    figures = Figures.of(read_runs(options.runs), read_tables(options.folder))
    print(markdown(figures, options.after))


def _plot(options: argparse.Namespace) -> None:
    from benchmarks.ablation_figures import Figures
    from benchmarks.ablation_plots import plot

    figures = Figures.of(read_runs(options.runs), read_tables(options.folder))
    for path in plot(figures, options.out, options.after):
        print(path)


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("record", help="measure what the tables lack")
    one.add_argument("folder", type=Path, help="where the tables are")
    one.add_argument("--problems", default=PROBLEMS, help="of level 1, such as 8,21-23")
    one.add_argument("--evaluations", type=int, default=500, help="of each problem, at least")
    one.add_argument("--points", type=int, default=500, help="of each problem, at least")
    one.add_argument("--minutes", type=float, help="stop after so long")
    two = verbs.add_parser("replay", help="search the tables")
    two.add_argument("folder", type=Path, help="where the tables are")
    two.add_argument("--out", type=Path, required=True, help="searches are appended to it")
    two.add_argument("--seeds", type=int, default=10)
    two.add_argument("--evaluations", type=int, default=300)
    two.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), metavar="NAME", help="all by default"
    )
    two.add_argument("--jobs", type=int, default=2, help="processes")
    three = verbs.add_parser("table", help="print what the searches found")
    four = verbs.add_parser("plot", help="draw it")
    four.add_argument("--out", type=Path, required=True, help="folder for PNG and SVG")
    for last in (three, four):
        last.add_argument("folder", type=Path, help="where the tables are")
        last.add_argument("runs", type=Path, nargs="+", help="what `replay` wrote")
        last.add_argument("--after", type=parse_ids, default=AFTER)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
