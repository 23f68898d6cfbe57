"""How fast ways of tuning find a good configuration, on recorded tables.

    python benchmarks/tuning.py TABLES.jsonl[.gz]... [--seeds 10] [--batch 4] [--first 4]
        [--earlier OLD_TUNE.py] [--tables-too]

The tables come from `tuning_tables.py`: every point of a space with its time or its failure, so a
search is replayed without measuring. It starts from the default and some random points, like a
sketch, and goes on in batches from the fastest point so far. What is printed is the best time of
the table over the best so far, after 5, 10, 25, 50 and 100 points: 1 is the optimum. Geometric
mean over seeds and tables; below it the share of searches within 1 % of the optimum.

`--earlier` takes `operators/tune.py` of an earlier version (`git show 7d0259e:operators/tune.py`).
Where tables hold one sketch on two problems, transfer is compared too: the start is then the
default, the two points that were best for the other problem, and random ones; best of all that its
table holds, and best of 13 random ones, as after a first generation.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archives.configuration import Configuration, Space
from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Lattice
from operators.relatives import Relative, points_of_relatives
from operators.tune import propose_points

AFTER = (5, 10, 25, 50, 100)
_FOUND = 13
"""Points of a relative that were tried where it knows a first generation only."""

Point = tuple[int, ...]
Propose = Callable[..., Sequence[Configuration]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One recorded table.

    Attributes:
        name: Sketch and problem.
        sketch: The sketch.
        space: What was tried, as a whole.
        start: The sketch's default.
        times: ms of each point; None where it failed.
    """

    name: str
    sketch: str
    space: Space
    start: Point
    times: dict[Point, float | None]

    @property
    def lattice(self) -> Lattice:
        """The lattice of its space."""
        return Lattice.of(self.space)

    @property
    def best_ms(self) -> float:
        """The least time."""
        return min(ms for ms in self.times.values() if ms is not None)

    def ranked(self, points: Sequence[Point]) -> list[Point]:
        """Return points that work, the fastest first."""
        timed = [(ms, point) for point in points if (ms := self.times.get(point)) is not None]
        return [point for _, point in sorted(timed)]

    def result(self, point: Point) -> ConfigurationResult:
        """Return what a measurement of a point says; a point that was not recorded fails."""
        ms = self.times.get(point)
        return ConfigurationResult(
            configuration=self.lattice.decode(point),
            status=Status.CRASHED if ms is None else Status.OK,
            latency_ms=ms,
        )


def main() -> None:
    """Print the comparisons."""
    options = _options()
    tables = [table for path in options.tables for table in read(path)]
    for table in tables:
        works = sum(ms is not None for ms in table.times.values())
        default = table.times.get(table.start)
        told = "fails" if default is None else f"{table.best_ms / default:.2f}"
        print(f"{table.name}: {len(table.times)} points, {works} work, the default is at {told}")
    ways: dict[str, Propose] = {"random": _random}
    if options.earlier:
        ways["tune before"] = _load(options.earlier)
    ways["tune, nothing learned"] = _without
    ways["tune with surrogate"] = _with
    plan = Plan(batch=options.batch, first=options.first)
    print(f"\nBatches of {plan.batch} after {plan.first} points, {options.seeds} seeds\n")
    print(_row("", [f"after {count}" for count in AFTER]))
    for name, propose in ways.items():
        began = time.perf_counter()
        found = np.array(
            [[replay(t, propose, s, plan) for s in range(options.seeds)] for t in tables]
        )
        seconds = time.perf_counter() - began
        print(_row(name, _summary(found)) + f"  {seconds:.0f} s")
        if options.tables_too:
            for table, rows in zip(tables, found, strict=True):
                print(_row(f"   {table.name}", _summary(rows[None])))
    _transfer(tables, options, plan)


def _transfer(tables: Sequence[Table], options: argparse.Namespace, plan: Plan) -> None:
    """Compare with and without what was best for another problem, both ways round."""
    pairs = [
        (table, other)
        for table in tables
        for other in tables
        if table is not other
        and table.sketch == other.sketch
        and set(table.space) == set(other.space)
    ]
    if not pairs:
        return
    print(f"\nTransfer between {len(pairs)} pairs of tables, each from one to the other\n")
    print(_row("", [f"after {count}" for count in AFTER]))
    for name, known in (("none", 0), (f"best of {_FOUND}", _FOUND), ("best of all", None)):
        found = []
        for table, other in pairs:
            rows = []
            for seed in range(options.seeds):
                starts = _relatives(other, known, seed)
                rows.append(replay(table, _with, seed, plan, starts))
            found.append(rows)
        print(_row(f"transfer: {name}", _summary(np.array(found))))


def _relatives(other: Table, known: int | None, seed: int) -> tuple[Relative, ...]:
    """The two best of a relative's points that are known."""
    points = list(other.times)
    if known is not None:
        drawn = np.random.default_rng([seed, 1]).permutation(len(points))[:known]
        points = [other.start, *(points[index] for index in drawn.tolist())] if known else []
    return tuple(
        Relative(problem=other.name, configuration=other.lattice.decode(point))
        for point in other.ranked(points)[:2]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The shape of a search.

    Attributes:
        batch: Points of a proposal.
        first: Points of the first proposal, the default among them.
    """

    batch: int
    first: int


def replay(
    table: Table,
    propose: Propose,
    seed: int,
    plan: Plan,
    relatives: Sequence[Relative] = (),
) -> list[float]:
    """Replay one search.

    Args:
        table: What there is to find.
        propose: The way of tuning.
        seed: Of the random stream.
        plan: The shape of the search.
        relatives: What was best elsewhere, among the first points.

    Returns:
        The best time of the table over the best so far, after each count of `AFTER`.
    """
    rng = np.random.default_rng([seed, 0])
    lattice = table.lattice
    start = lattice.decode(table.start)
    first = [table.start, *points_of_relatives(lattice, relatives, start, 2)]
    known = list(table.times)
    first += [known[index] for index in rng.permutation(len(known)).tolist()]
    tried = [table.result(point) for point in list(dict.fromkeys(first))[: plan.first]]
    while len(tried) < min(AFTER[-1], lattice.num_points):
        timed = [one for one in tried if one.latency_ms is not None]
        fastest = min(timed, key=lambda one: one.latency_ms or np.inf, default=tried[0])
        points = propose(table.space, tried, fastest.configuration, plan.batch, rng)
        if not points:
            break
        encoded = [lattice.encode(point) for point in points]
        tried += [table.result(point) for point in encoded if point is not None]
    return list(_progress(table, tried))


def _progress(table: Table, tried: Sequence[ConfigurationResult]) -> Iterator[float]:
    """Yield the best time of all over the best so far, after each count of `AFTER`.

    Where nothing has worked by then it is 0.01, as if the best so far took a hundred times as long:
    a 0 would make every geometric mean 0.
    """
    for count in AFTER:
        times = [one.latency_ms for one in tried[:count] if one.latency_ms is not None]
        yield table.best_ms / min(times) if times else 0.01


def _with(*args: Any) -> Sequence[Configuration]:  # noqa: ANN401 - those of `propose_points`
    return propose_points(*args)


def _without(*args: Any) -> Sequence[Configuration]:  # noqa: ANN401 - the same
    return propose_points(*args, learns=False)


def _random(
    space: Space,
    tried: Sequence[ConfigurationResult],
    start: Configuration,
    count: int,
    rng: np.random.Generator,
) -> list[Configuration]:
    """Points that were not tried, with the same probability each."""
    lattice = Lattice.of(space)
    seen = {lattice.encode(one.configuration) for one in tried}
    order = rng.permutation(lattice.num_points).tolist()
    fresh = (point for number in order if (point := lattice.point(number)) not in seen)
    return [lattice.decode(point) for point, _ in zip(fresh, range(count), strict=False)]


def read(path: Path) -> Iterator[Table]:
    """Yield the tables of a file that were recorded whole, or nearly so."""
    heads: dict[str, dict[str, Any]] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    data_of = gzip.decompress if path.suffix == ".gz" else bytes
    for line in data_of(path.read_bytes()).decode().splitlines():
        data = json.loads(line)
        if "space" in data:
            heads[data["table"]] = data
        else:
            rows.setdefault(data["table"], []).append(data)
    for name, head in heads.items():
        lattice = Lattice.of(head["space"])
        times: dict[Point, float | None] = {}
        for row in rows.get(name, ()):
            point = lattice.encode(row["configuration"])
            assert point is not None, f"{name}: {row['configuration']} is no point of its space"
            times[point] = row.get("ms")
        start = lattice.encode(head["start"])
        assert start is not None, f"{name}: its start is no point of its space"
        if len(times) < 0.95 * lattice.num_points:
            print(f"{name}: left out, {len(times)} of {lattice.num_points} points were recorded")
            continue
        yield Table(name=name, sketch=head["sketch"], space=head["space"], start=start, times=times)


def _load(path: Path) -> Propose:
    spec = importlib.util.spec_from_file_location("earlier_tune", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: Propose = module.propose_points
    return found


def _summary(found: NDArray[np.float64]) -> list[str]:
    """Geometric mean and share of hits for each count; axes: tables, seeds, counts."""
    means = np.exp(np.log(found).mean(axis=(0, 1)))
    hits = (found >= 0.99).mean(axis=(0, 1))
    return [f"{mean:.3f} {hit:4.0%}" for mean, hit in zip(means, hits, strict=True)]


def _row(name: str, cells: Sequence[str]) -> str:
    return f"{name:28s}" + "".join(f"{cell:>13s}" for cell in cells)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4, help="points of a proposal")
    parser.add_argument("--first", type=int, default=4, help="points before the first proposal")
    parser.add_argument("--earlier", type=Path, help="operators/tune.py of an earlier version")
    parser.add_argument("--tables-too", action="store_true", help="print each table's rows too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
