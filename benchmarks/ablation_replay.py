"""Replay for `ablation.py`: the real engine under a variant's settings, answered from a table."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from archives.descriptors import axes_named, describe
from archives.records import RunRecord
from archives.store import Store
from benchmarks.ablation_evaluator import TableEvaluator, Try
from benchmarks.ablation_tables import LEAST_PASSES, Table
from benchmarks.ablation_variants import VARIANTS, config_of
from benchmarks.json_lines import drop_unfinished, whole_lines
from evokernel.config import RunConfig
from evokernel.engine import Engine
from evokernel.launch import load_operators
from operators.sketch import SketchOperator
from problems.errors import ConfigError

_SEARCHED = {"search", "operators", "archive", "budget", "rng_seed"}
_Task = tuple[Path, str, int, int]
_Key = tuple[str, str, int, int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one replayed search found.

    Attributes:
        problem: Label of the problem.
        variant: Name of the variant.
        seed: Root of the search's random streams, and of the measurements that it sees.
        limit: Points that it was to try at most.
        table: The sha256 of its table, in hexadecimal.
        config: That of its resolved configuration; see `digest_of`.
        evaluations: Points that were tried.
        unknown: Those of them that the table has no verdict on.
        steps: (evaluations, speedup) at each change of what the archive holds as its best; the
            speedup is the median of that candidate's measurements but the one that was seen.
        seconds: Wall time of the replay.
    """

    problem: str
    variant: str
    seed: int
    limit: int
    table: str
    config: str
    evaluations: int
    unknown: int
    steps: tuple[tuple[int, float], ...]
    seconds: float


def search(table: Table, variant: str, seed: int, evaluations: int) -> Run:
    """Replay one search.

    Args:
        table: What there is to find.
        variant: A name of `VARIANTS`.
        seed: Of the search.
        evaluations: Points that may be tried; no more than the table has.
    """
    began = time.perf_counter()
    world = table.world
    config = config_on(table, variant, seed, evaluations)
    operators = load_operators(config)
    operators["sketch"] = SketchOperator(sketches=world.sketches)
    evaluator = TableEvaluator(table=table, seed=seed, reference_ms=table.reference_ms)
    with tempfile.TemporaryDirectory(dir=_memory()) as parent:
        record = RunRecord(
            name="ablation",
            created="",
            config_json=config.model_dump_json(),
            rng_seed=seed,
            scale=world.problem.scale.value,
        )
        with Store.create(Path(parent) / "run", record, problems=[world.problem]) as store:
            engine = Engine(store=store, config=config, evaluator=evaluator, operators=operators)
            asyncio.run(engine.run())
    steps = _steps(table, seed, evaluator.tried, config.archive.axes)
    return Run(
        problem=world.problem.label,
        variant=variant,
        seed=seed,
        limit=evaluations,
        table=table.digest,
        config=digest_of(config),
        evaluations=sum(one.points for one in evaluator.tried),
        unknown=evaluator.unknown,
        steps=steps,
        seconds=time.perf_counter() - began,
    )


def config_on(table: Table, variant: str, seed: int, evaluations: int) -> RunConfig:
    """Return the configuration of a search on a table: it tries no more points than there are."""
    return config_of(variant, seed, min(evaluations, len(table.measured)))


def digest_of(config: RunConfig) -> str:
    """Return the sha256 of what a replay depends on of a configuration, in hexadecimal.

    Problems and verdicts are the table's, and nobody is asked for a program: a setting that is new
    in one of those groups changes no search here.
    """
    return hashlib.sha256(config.model_dump_json(include=_SEARCHED).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is replayed.

    Attributes:
        variants: Names.
        seeds: Searches of each variant on each table.
        evaluations: Points of each search at most.
        jobs: Processes.
    """

    variants: Sequence[str]
    seeds: int
    evaluations: int
    jobs: int


def replay(paths: Sequence[Path], out: Path, plan: Plan) -> None:
    """Replay what a file does not hold yet, and append it, one line of JSON for each search.

    Args:
        paths: The tables.
        out: The file.
        plan: What is wanted.

    Raises:
        ConfigError: A table is not finished, a variant is not known, or the file holds something
            else than searches.
    """
    unknown = [name for name in plan.variants if name not in VARIANTS]
    if unknown:
        raise ConfigError(
            f"there is no variant {unknown[0]!r}: there are {', '.join(map(repr, VARIANTS))}"
        )
    done = {_key(run) for run in read_runs([out])}
    tasks: list[_Task] = []
    for path in paths:
        table = _read(path)
        label = table.world.problem.label
        lacking = sum(table.lacks(*point, LEAST_PASSES) > 0 for point in table.world.points())
        if lacking:
            raise ConfigError(
                f"{path}: {lacking} points of {label} were measured less than {LEAST_PASSES} "
                "times: record on"
            )
        for seed in range(plan.seeds):
            for name in plan.variants:
                config = digest_of(config_on(table, name, seed, plan.evaluations))
                if (label, name, seed, plan.evaluations, table.digest, config) not in done:
                    tasks.append((path, name, seed, plan.evaluations))
    drop_unfinished(out)
    with out.open("a", encoding="utf-8") as file:
        for number, run in enumerate(_searched(tasks, plan.jobs), 1):
            print(json.dumps(asdict(run)), file=file, flush=True)
            if number % 50 == 0 or number == len(tasks):
                print(f"{number} of {len(tasks)} searches", file=sys.stderr, flush=True)


def _key(run: Run) -> _Key:
    return run.problem, run.variant, run.seed, run.limit, run.table, run.config


def _searched(tasks: Sequence[_Task], jobs: int) -> Iterator[Run]:
    """Yield the searches as they are done."""
    if jobs == 1:
        yield from map(_do, tasks)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for future in as_completed([pool.submit(_do, task) for task in tasks]):
            yield future.result()


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """Return the searches of files; a file that is not there holds none.

    A last line that was not finished is left out.

    Raises:
        ConfigError: A line is no search.
    """
    found = []
    for path in paths:
        for number, line in enumerate(whole_lines(path), 1):
            try:
                data = json.loads(line)
                steps = tuple((count, value) for count, value in data.pop("steps"))
                found.append(Run(**data, steps=steps))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"{path}, line {number}: no search of this version of ablation.py ({error!r}): "
                    "take another file"
                ) from error
    return found


def _steps(
    table: Table, seed: int, tried: Sequence[Try], axes: Sequence[str]
) -> tuple[tuple[int, float], ...]:
    """What is known of the best of the archive otherwise, whenever another one becomes it."""
    steps: list[tuple[int, float]] = []
    seen, count, chosen = 0.0, 0, axes_named(axes)
    for one in tried:
        count += one.points
        objective = one.verdict and one.verdict.objective_speedup
        if not objective or one.verdict is None or describe(one.verdict.facts, chosen) is None:
            continue
        if objective > seen:
            seen = objective
            steps.append((count, table.value(one.candidate, seed) or 1.0))
    return tuple(steps)


@lru_cache(maxsize=16)
def _read(path: Path) -> Table:
    """A table; each process reads it once."""
    return Table.read(path)


def _do(task: _Task) -> Run:
    path, variant, seed, evaluations = task
    logging.getLogger("evokernel").setLevel(logging.ERROR)
    return search(_read(path), variant, seed, evaluations)


def _memory() -> Path | None:
    """A folder in memory, where there is one: a replay's store is thrown away."""
    shared = Path("/dev/shm")  # noqa: S108 - a fresh folder is made in it
    return shared if shared.is_dir() else None
