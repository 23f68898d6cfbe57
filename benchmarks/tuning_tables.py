"""Record how fast every configuration of some Triton sketches is: tables for `tuning.py`.

    python benchmarks/tuning_tables.py OUT.jsonl [--seconds 140] [--only softmax,matmul] [--list]

Each table is one sketch on one problem, over a part of its space that is tried as a whole, in
random order. All cores but one compile, without launching; this process times what is ready, in
one process on the GPU, so no clocks of two processes meet. A line of JSON for each configuration:
table, configuration, status, median ms, error. Sizes are chosen so that kernels take 0.1 to 5 ms.
Quick medians in an open process, for comparing ways of tuning; no claim about a kernel rests on
them.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import multiprocessing
import os
import queue
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from archives.configuration import (
    Configuration,
    Space,
    read_configuration,
    read_space,
    with_configuration,
    with_space,
)
from operators.sketches.registry import SKETCHES
from problems.catalogue import load_level
from problems.graph import TensorSpec
from problems.problem import Problem, Scale
from problems.trace import trace

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
FACTOR, FACTOR_TF32, UNITS = 16.0, 4.0, 8 * 2.0**-24
"""Permitted error: times float32's own, times TF32's, and of the output's root mean square."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table.

    Attributes:
        name: Sketch and problem, for people.
        sketch: Name of the sketch.
        id: Problem of level 1.
        sizes: Constants of the problem that differ from KernelBench's.
        only: Choices that are tried, where not all of a parameter's.
    """

    name: str
    sketch: str
    id: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)


_SLIDE = {"BLOCK_H": (4, 16, 64), "BLOCK_W": (512, 256, 128), "UNROLL": (1, 4)}
_SLIDE_WARPS = {**_SLIDE, "num_warps": (1, 4, 8)}
_PRODUCT = {"PRECISION": ("bf16x3", "tf32x3", "tf32")}
_GATHER = {"PRECISION": ("fp16x3",)}
_GROUPS = {"TILES": (1, 4, 16), "WAVES": (1, 4)}

TABLES = (
    Table(name="map relu", sketch="triton-map", id=19, sizes={"batch_size": 256}),
    Table(name="scan exclusive", sketch="triton-scan", id=92, sizes={"batch_size": 8192}),
    Table(name="sweep softmax", sketch="triton-sweep", id=23, sizes={"batch_size": 256}),
    Table(name="sweep layernorm", sketch="triton-sweep", id=40),
    Table(
        name="depthwise 3x3",
        sketch="depthwise-convolution",
        id=82,
        sizes={"batch_size": 8},
        only=_SLIDE_WARPS,
    ),
    Table(name="matmul wide", sketch="tiled-matmul", id=2, sizes={"K": 2048}, only=_PRODUCT),
    Table(
        name="conv 5x7", sketch="gathered-convolution", id=56, sizes={"batch_size": 4}, only=_GATHER
    ),
    Table(
        name="pool 4x4", sketch="sliding-pool", id=42, sizes={"batch_size": 8}, only=_SLIDE_WARPS
    ),
    Table(
        name="matmul tall",
        sketch="tiled-matmul",
        id=2,
        sizes={"M": 8192, "K": 1024, "N": 2048},
        only=_PRODUCT,
    ),
    Table(
        name="depthwise 3x7",
        sketch="depthwise-convolution",
        id=85,
        sizes={"batch_size": 16},
        only={**_SLIDE_WARPS, "BLOCK_W": (256, 128, 64)},
    ),
    Table(
        name="groups softmax",
        sketch="triton-groups",
        id=23,
        sizes={"batch_size": 256},
        only=_GROUPS,
    ),
    Table(name="groups layernorm", sketch="triton-groups", id=40, only=_GROUPS),
    Table(
        name="conv 3x3", sketch="gathered-convolution", id=63, sizes={"batch_size": 2}, only=_GATHER
    ),
    Table(name="map gelu", sketch="triton-map", id=88),
    Table(name="scan plain", sketch="triton-scan", id=89, sizes={"batch_size": 8192}),
    Table(name="split mse", sketch="triton-split", id=94, sizes={"batch_size": 8192}),
    Table(name="split kldiv", sketch="triton-split", id=98, sizes={"batch_size": 8192}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One configuration of one table."""

    table: int
    configuration: Configuration


def main() -> None:
    """Record the tables that the time suffices for, one after the other."""
    options = _options()
    tables = [n for n, table in enumerate(TABLES) if _is_wanted(table, options.only)]
    if options.list:
        for n in tables:
            sys.stdout.write(f"{TABLES[n].name}: {len(list(_points(TABLES[n])))} points\n")
        return
    end = time.monotonic() + options.seconds
    jobs = [Job(table=n, configuration=point) for n in tables for point in _points(TABLES[n])]
    with open(options.out, "a") as out, tempfile.TemporaryDirectory() as folder, torch.no_grad():
        for n in tables:
            print(json.dumps(_head(TABLES[n])), file=out)
        context = multiprocessing.get_context("fork")
        waiting, ready = context.Queue(), context.Queue()
        for job in jobs[: options.points or None]:
            waiting.put(job)
        workers = [
            context.Process(target=_compile, args=(waiting, ready, folder, core), daemon=True)
            for core in range(max(1, len(os.sched_getaffinity(0)) - 1))
        ]
        for worker in workers:
            worker.start()
        for _ in jobs[: options.points or None]:
            try:
                job, error = ready.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            facts = {"status": "BUILD_ERROR", "log": error} if error else _timed(job, folder)
            line = {"table": TABLES[job.table].name, "configuration": job.configuration, **facts}
            print(json.dumps(line), file=out, flush=True)
        for worker in workers:
            worker.kill()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, default=Path("tables.jsonl"))
    parser.add_argument("--seconds", type=float, default=140.0)
    parser.add_argument("--only", default="", help="tables whose name begins so, by commas")
    parser.add_argument("--points", type=int, default=0, help="at most so many in all")
    parser.add_argument("--list", action="store_true", help="say how large the tables are")
    return parser.parse_args()


def _is_wanted(table: Table, only: str) -> bool:
    return not only or any(table.name.startswith(start) for start in only.split(","))


@cache
def problem_of(table_number: int) -> Problem:
    """Return the problem of a table, at the table's sizes."""
    table = TABLES[table_number]
    problem = load_level(1, Scale.OFFICIAL, (table.id,))[0]
    source = problem.source
    sizes = dict(table.sizes)
    if INTERPRETED:
        sizes |= {"batch_size": 1, "M": 64, "N": 64, "K": 64}
    for name, size in sizes.items():
        source = re.sub(rf"(?m)^{name} = \d+$", f"{name} = {size}", source)
    return Problem(
        level=1, id=table.id, name=problem.name, family=problem.family, scale=Scale.CUSTOM,
        source=source, domains=problem.domains,
    )  # fmt: skip


@cache
def program_of(table_number: int) -> str:
    """Return the program of a table; its space is the part that is tried."""
    table = TABLES[table_number]
    problem = problem_of(table_number)
    sketch = next(one for one in SKETCHES if one.name == table.sketch)
    source = sketch.write(problem, trace(problem.source))
    assert source is not None, f"{table.sketch} does not know {problem.label}"
    space: dict[str, Any] = {}
    for name, choices in read_space(source).items():
        space[name] = [one for one in choices if one in table.only.get(name, choices)]
        assert space[name], f"{table.name}: nothing is left of {name} {choices}"
    source = with_space(source, space)
    default = {
        n: v if v in space[n] else space[n][0] for n, v in read_configuration(source).items()
    }
    source = with_configuration(source, default)
    return source.replace('DEVICE = "cuda"', f'DEVICE = "{DEVICE}"')


def _points(table: Table) -> Iterator[Configuration]:
    """All points, in random order."""
    space: Space = read_space(program_of(TABLES.index(table)))
    points = list(itertools.product(*space.values()))
    for number in np.random.default_rng(0).permutation(len(points)).tolist():
        yield dict(zip(space, points[number], strict=True))


def _head(table: Table) -> dict[str, Any]:
    number = TABLES.index(table)
    problem = problem_of(number)
    source, inputs = program_of(number), trace(problem.source).inputs
    return {
        "table": table.name,
        "sketch": table.sketch,
        "problem": problem.label,
        "family": problem.family,
        "sizes": dict(table.sizes),
        "inputs": [list(x.shape) for x in inputs if isinstance(x, TensorSpec)],
        "space": {name: list(choices) for name, choices in read_space(source).items()},
        "start": dict(read_configuration(source)),
    }


def _load(source: str, folder: str, name: str) -> ModuleType:
    path = Path(folder) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(slots=True)
class _Case:
    """A table's inputs, weights and the truth, on the device."""

    table: int
    init: list[Any]
    inputs: list[Any]
    state: dict[str, Any]
    exact: torch.Tensor | None = None
    bound: float = 0.0

    @classmethod
    def of(cls, table: int, folder: str) -> _Case:
        torch.manual_seed(0)
        with torch.device(DEVICE):
            reference = _load(problem_of(table).source, folder, f"reference{os.getpid()}")
            init = reference.get_init_inputs()
            model = reference.Model(*init).to(DEVICE)
            return cls(table, init, reference.get_inputs(), model.state_dict())

    def judge(self, folder: str) -> None:
        """Find the truth in float64, and the error that is permitted."""
        with torch.device(DEVICE):
            reference = _load(problem_of(self.table).source, folder, "reference_exact")
            model = reference.Model(*self.init).to(DEVICE)
            model.load_state_dict(self.state)
            errors = []
            self.exact = _double(model, self.inputs)
            model.float()
            model.load_state_dict(self.state)
            for allowed, factor in ((False, FACTOR), (True, FACTOR_TF32)):
                torch.backends.cuda.matmul.allow_tf32 = allowed
                torch.backends.cudnn.allow_tf32 = allowed
                errors.append(factor * self.error(model(*self.inputs)))
            scale = self.exact.square().mean().sqrt().item()
            self.bound = max(*errors, UNITS * scale)

    def error(self, got: torch.Tensor) -> float:
        """Return the largest error of an output."""
        assert self.exact is not None
        return float((got.double() - self.exact).abs().max().item())

    def model(self, job: Job, folder: str, name: str) -> torch.nn.Module:
        """Build the program at a configuration."""
        source = with_configuration(program_of(self.table), job.configuration)
        with torch.device(DEVICE):
            model: torch.nn.Module = _load(source, folder, name).ModelNew(*self.init).to(DEVICE)
        model.load_state_dict(self.state)
        return model


def _double(model: torch.nn.Module, inputs: list[Any]) -> torch.Tensor:
    wide = [x.double() if isinstance(x, torch.Tensor) else x for x in inputs]
    result: torch.Tensor = model.double()(*wide)
    return result


_cases: dict[tuple[int, int], _Case] = {}
"""The last table of each process: this is a script, its processes are its own."""


def _case(table: int, folder: str) -> _Case:
    key = (os.getpid(), table)
    if key not in _cases:
        _cases.clear()
        _cases[key] = _Case.of(table, folder)
    return _cases[key]


def _compile(waiting: Any, ready: Any, folder: str, core: int) -> None:  # noqa: ANN401 - queues
    """Compile configurations until there are none left; nothing is launched."""
    plain = JITFunction.run

    def only_compile(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:  # noqa: ANN401
        return plain(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = only_compile
    torch.set_num_threads(1)
    with torch.no_grad():
        while True:
            job = waiting.get()
            error = ""
            try:
                case = _case(job.table, folder)
                if not INTERPRETED:
                    case.model(job, folder, f"compiled{core}")(*case.inputs)
            except Exception as problem:  # noqa: BLE001 - the verdict on whatever a program does
                error = f"{type(problem).__name__}: {problem}"[:300]
            ready.put((job, error))


def _timed(job: Job, folder: str) -> dict[str, Any]:
    """Check and time one configuration."""
    case = _case(job.table, folder)
    if case.exact is None:
        case.judge(folder)
    try:
        model = case.model(job, folder, "timed")
        error = case.error(model(*case.inputs))
        if not error <= case.bound:
            return {"status": "WRONG_VALUE", "error": error, "bound": case.bound}
        return {"status": "OK", "ms": _median_ms(model, case.inputs), "error": error}
    except OutOfResources as problem:
        return {"status": "OUT_OF_MEMORY", "log": str(problem)[:300]}
    except Exception as problem:  # noqa: BLE001 - the verdict on whatever a program does
        return {"status": "RUNTIME_ERROR", "log": f"{type(problem).__name__}: {problem}"[:300]}


def _median_ms(model: torch.nn.Module, inputs: list[Any], budget_ms: float = 6.0) -> float:
    """Median of five legs of calls, each between two events of the device."""
    first = _leg_ms(model, inputs, 2)
    calls = max(1, min(20, int(budget_ms / 5 / max(first, 1e-3))))
    return statistics.median(_leg_ms(model, inputs, calls) for _ in range(5))


def _leg_ms(model: torch.nn.Module, inputs: list[Any], calls: int) -> float:
    if INTERPRETED:
        start = time.perf_counter()
        for _ in range(calls):
            model(*inputs)
        return (time.perf_counter() - start) / calls * 1e3
    event: Any = torch.cuda.Event  # torch leaves its constructor untyped
    before, after = event(enable_timing=True), event(enable_timing=True)
    before.record()
    for _ in range(calls):
        model(*inputs)
    after.record()
    after.synchronize()
    return float(before.elapsed_time(after)) / calls


if __name__ == "__main__":
    main()
