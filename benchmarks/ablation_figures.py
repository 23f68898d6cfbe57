"""What the searches of `ablation.py` come to: means, intervals, and the tables of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ablation_replay import Run, config_on, digest_of
from benchmarks.ablation_tables import Table
from benchmarks.ablation_variants import FULL, LEFT_OUT, VARIANTS
from problems.errors import ConfigError

_RESAMPLES = 4000
_LEVEL = 0.99
_CLOSE = 0.98
"""Share of the best of a table from which a search counts as having found it: within 2 %."""
_EQUAL = 0.01
"""Relative difference below which two variants are alike on a problem."""

Floats = NDArray[np.floating[Any]]
Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its 99 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The searches, as logarithms of speedups.

    Attributes:
        problems: Labels.
        bests: The highest speedup of each problem's table.
        points: How many points each table has.
        measurements: How many measurements.
        devices: Where they were measured, and by which referee.
        variants: Names; the full search first.
        found: log speedup of the best of the archive; axes: variant, problem, seed, evaluations
            (from 0, where it is that of the reference: 0).
        unknown: Points asked for that no table has; axes: variant, problem.
        tried: Points tried; axes: variant, problem.
    """

    problems: tuple[str, ...]
    bests: Floats
    points: tuple[int, ...]
    measurements: tuple[int, ...]
    devices: tuple[str, ...]
    variants: tuple[str, ...]
    found: Floats
    unknown: Counts
    tried: Counts

    @classmethod
    def of(cls, runs: Sequence[Run], tables: Sequence[Table]) -> Figures:
        """Put searches together.

        Raises:
            ConfigError: There is none of what a variant is held against, some are missing, or they
                are not of one kind: with several limits, of another table, or another variant.
        """
        _check(runs, tables)
        by_key = {(run.variant, run.problem, run.seed): run for run in runs}
        labels = {run.problem for run in runs}
        used = [table for table in tables if table.world.problem.label in labels]
        problems = tuple(table.world.problem.label for table in used)
        variants = tuple(name for name in VARIANTS if any(run.variant == name for run in runs))
        seeds = sorted({run.seed for run in runs})
        wanted = [(v, p, s) for v in variants for p in problems for s in seeds]
        missing = [key for key in wanted if key not in by_key]
        needed = {FULL, *(VARIANTS[name].against for name in variants)}
        if missing or not needed <= set(variants):
            raise ConfigError(
                f"{len(missing)} searches are missing, such as {missing[:1]}, and variants are "
                f"{', '.join(map(repr, variants)) or 'none'} where {', '.join(sorted(needed))} are "
                "needed: let `replay` finish"
            )
        most = max(run.limit for run in runs)
        curves = np.array([_curve(by_key[key], most) for key in wanted])
        shape = (len(variants), len(problems), len(seeds))
        unknown = np.array([by_key[key].unknown for key in wanted]).reshape(shape)
        tried = np.array([by_key[key].evaluations for key in wanted]).reshape(shape)
        return cls(
            problems=problems,
            bests=np.array([table.best for table in used]),
            points=tuple(len(table.measured) for table in used),
            measurements=tuple(table.num_measurements for table in used),
            devices=tuple(
                sorted({f"{t.world.device}, referee `{t.world.referee_version}`" for t in used})
            ),
            variants=variants,
            found=curves.reshape((*shape, most + 1)),
            unknown=unknown.sum(axis=2),
            tried=tried.sum(axis=2),
        )

    @property
    def most(self) -> int:
        """The largest number of evaluations."""
        return int(self.found.shape[-1]) - 1

    def mean(self, variant: int, count: int) -> Estimate:
        """Return the geometric mean of a variant's speedups after so many evaluations."""
        return estimate(self.found[variant, :, :, count])

    def ratio(self, variant: int, count: int) -> Estimate:
        """Return the geometric mean of its speedups over those of what it is held against."""
        return estimate(self._differences(variant, count))

    def close(self, variant: int, count: int) -> float:
        """Return the share of searches within 2 % of the best of their table."""
        best = np.log(self.bests)[:, None] + np.log(_CLOSE)
        return float((self.found[variant, :, :, count] >= best).mean())

    def wins(self, variant: int, count: int) -> tuple[int, int]:
        """Return on how many problems it is better than what it is held against, and worse.

        By the mean over seeds, and by more than 1 %.
        """
        means = self._differences(variant, count).mean(axis=1)
        limit = np.log1p(_EQUAL)
        return int((means > limit).sum()), int((means < -limit).sum())

    def title(self, variant: int) -> str:
        """Return a variant's name, and what it is held against if not the full search."""
        name = self.variants[variant]
        against = VARIANTS[name].against
        return name if against == FULL else f"{name} (over {against})"

    def _differences(self, variant: int, count: int) -> Floats:
        against = self.variants.index(VARIANTS[self.variants[variant]].against)
        differences: Floats = self.found[variant, :, :, count] - self.found[against, :, :, count]
        return differences


def estimate(logs: Floats) -> Estimate:
    """Return the geometric mean, with an interval for other problems and seeds like these.

    Args:
        logs: Logarithms; axes: problem, seed.

    Returns:
        The mean and the 0.5 % and 99.5 % quantiles of a bootstrap in two levels: problems are drawn
        with replacement, and of each the seeds.

    Source: Davison and Hinkley, Bootstrap Methods and their Application (1997), section 3.8.
    """
    rng = np.random.default_rng(0)
    num_problems, num_seeds = logs.shape
    problems = rng.integers(num_problems, size=(_RESAMPLES, num_problems, 1))
    seeds = rng.integers(num_seeds, size=(_RESAMPLES, num_problems, num_seeds))
    means = logs[problems, seeds].mean(axis=(1, 2))
    low, high = np.quantile(means, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(
        value=float(np.exp(logs.mean())), low=float(np.exp(low)), high=float(np.exp(high))
    )


def markdown(figures: Figures, after: Sequence[int]) -> str:
    """Return the tables of a page.

    Args:
        figures: What was found.
        after: Numbers of evaluations; those that no search reached are left out.
    """
    counts = [count for count in after if count <= figures.most]
    head = [f"after {count}" for count in counts]
    seeds = figures.found.shape[2]
    rows = range(len(figures.variants))
    others = [row for row in rows if figures.variants[row] != FULL]
    return "\n\n".join(
        [
            f"{len(figures.problems)} problems, {seeds} seeds; measured on "
            + "; ".join(figures.devices),
            LEFT_OUT,
            _variants(figures),
            _problems(figures),
            "Geometric mean of the speedup of the best of the archive (99 % interval)",
            _grid(figures, head, rows, lambda row: [_told(figures.mean(row, n)) for n in counts]),
            "The same over the full search, or over what is named, paired by problem and seed; in "
            "brackets on how many problems it is better + and worse - by more than 1 %",
            _grid(
                figures,
                head,
                others,
                lambda row: [_against(figures, row, n) for n in counts],
                name=figures.title,
            ),
            "Share of searches within 2 % of the best of their table",
            _grid(
                figures, head, rows, lambda row: [f"{figures.close(row, n):.0%}" for n in counts]
            ),
            _unknown(figures),
        ]
    )


def _variants(figures: Figures) -> str:
    lines = ["| search | what is different |", "|---|---|"]
    lines += [
        f"| {figures.title(row)} | {VARIANTS[name].note} |"
        for row, name in enumerate(figures.variants)
    ]
    return "\n".join(lines)


def _problems(figures: Figures) -> str:
    lines = ["| problem | points | measurements | best |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {points} | {measured} | {best:.2f}x |"
        for name, points, measured, best in zip(
            figures.problems, figures.points, figures.measurements, figures.bests, strict=True
        )
    ]
    return "\n".join(lines)


def _unknown(figures: Figures) -> str:
    """Say how often a search asked for what its table does not have, problem by problem."""
    shares = figures.unknown / np.maximum(figures.tried, 1)
    lines = [
        f"- {problem}: "
        + ", ".join(
            f"{name} {share:.1%}"
            for name, share in zip(figures.variants, shares[:, column], strict=True)
            if share
        )
        for column, problem in enumerate(figures.problems)
        if shares[:, column].any()
    ]
    if not lines:
        return "Every point that a search asked for is in its table."
    return "\n".join(["Evaluations without a verdict, since the table lacks the point:\n", *lines])


def _check(runs: Sequence[Run], tables: Sequence[Table]) -> None:
    by_label = {table.world.problem.label: table for table in tables}
    stale = [run for run in runs if not _is_current(run, by_label.get(run.problem))]
    if stale or len({run.limit for run in runs}) > 1:
        raise ConfigError(
            f"{len(stale)} searches are of tables or variants that have changed since, and the "
            f"limits are {sorted({run.limit for run in runs})} evaluations: replay into a file of "
            "its own"
        )


def _is_current(run: Run, table: Table | None) -> bool:
    """Whether a search is one of today's table under today's configuration of its variant."""
    if table is None or run.variant not in VARIANTS or run.table != table.digest:
        return False
    return run.config == digest_of(config_on(table, run.variant, run.seed, run.limit))


def _grid(
    figures: Figures,
    head: Sequence[str],
    rows: Sequence[int],
    cells: Callable[[int], Sequence[str]],
    name: Callable[[int], str] | None = None,
) -> str:
    name = name or figures.variants.__getitem__
    lines = [f"| | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    lines += [f"| {name(row)} | {' | '.join(cells(row))} |" for row in rows]
    return "\n".join(lines)


def _told(found: Estimate) -> str:
    return f"{found.value:.2f} ({found.low:.2f}-{found.high:.2f})"


def _against(figures: Figures, row: int, count: int) -> str:
    found, (better, worse) = figures.ratio(row, count), figures.wins(row, count)
    return f"{found.value:.3f} ({found.low:.3f}-{found.high:.3f}) [+{better} -{worse}]"


def _curve(run: Run, most: int) -> Floats:
    """Logarithms of speedups after 0 to `most` evaluations; at first the reference's."""
    curve = np.zeros(most + 1)
    for count, speedup in run.steps:
        curve[count:] = np.log(speedup)
    return curve
