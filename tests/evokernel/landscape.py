"""A made-up world for the engine: instant verdicts on programs that are nothing but parameters.

The landscape is deceptive: a broad hill leads to a speedup of 2, a narrow one elsewhere to 6.
Run as a script it kills runs at random moments and resumes them.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from archives.configuration import (
    Configuration,
    read_configuration,
    read_space,
)
from archives.evaluation import (
    ConfigurationResult,
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Reuse,
    Rung,
    Status,
)
from archives.export import canonical_export
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Lint, Purpose
from evokernel.config import RunConfig, resolve
from evokernel.engine import Ending, Engine
from operators.operator import Operator, OperatorContext, Parent, Proposal
from operators.registry import OPERATORS
from problems.errors import ProblemError, StoreError
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem, Scale

VALUES = list(range(8))
NAMES = ("A", "B", "C", "D", "E")
PROGRAM = f"""\
import ctypes

CPP_SOURCE = "int main;"
TUNE_PARAMS = {{{", ".join(f'"{name}": {VALUES}' for name in NAMES)}}}
CONFIG = {{{", ".join(f'"{name}": 0' for name in NAMES)}}}


class ModelNew:
    def forward(self, x):
        return x
"""
SHAPE = (
    "search.generations=2",
    "search.islands=3",
    "search.initial=2",
    "search.proposals=2",
    "search.migration_interval=1",
    "search.together=4",
    "operators.settings.tune.configurations=3",
    "evaluation.verify_tries=2",
)
"""A small search; the presets may change without changing what is tested."""

DEVICE = DeviceFingerprint(
    kind="cpu", name="Landscape", uuid="landscape-0", threads=1, versions={"torch": "none"}
)


def problem(number: int) -> Problem:
    source = (
        f"SIZE = {number}\n\n\nclass Model:\n    def forward(self, x):\n        return x\n\n\n"
        "def get_inputs():\n    return []\n\n\ndef get_init_inputs():\n    return []\n"
    )
    return Problem(
        level=1,
        id=number,
        name=f"Valley{number}",
        family="landscape",
        scale=Scale.TINY,
        source=source,
    )


def problems(count: int = 2) -> list[Problem]:
    return [problem(number) for number in range(1, count + 1)]


def speedup_at(point: Configuration, shift: int = 0) -> float:
    """A broad hill around 1s and a narrow one around 6s; `shift` moves the latter."""
    near = sum(abs(int(point[name]) - 1) for name in NAMES)
    far = sum(abs(int(point[name]) - (6 - (i + shift) % 2)) for i, name in enumerate(NAMES))
    return 0.5 + 1.5 * math.exp(-near / 8) + 4.0 * math.exp(-far / 4)


def facts_at(point: Configuration) -> KernelFacts:
    return KernelFacts(
        launches=1 + int(point["A"]) // 2,
        own_kernel_share=1.0,
        reuse=Reuse.CACHE if int(point["B"]) >= 4 else Reuse.REGISTERS,
        work=8 << int(point["C"]),
    )


def fit(speedup: float, facts: KernelFacts, rung: Rung = Rung.TIME) -> Evaluation:
    return Evaluation(
        status=Status.OK,
        rung=rung,
        latency_ms=1 / speedup,
        reference_ms=1.0,
        speedup=speedup,
        matched_speedup=speedup,
        interval=Interval(low=speedup * 0.99, high=speedup * 1.01),
        facts=facts,
        cost_s=0.25,
        referee_version="landscape-1",
        device=DEVICE,
    )


def broken_problem(complaint: str) -> Callable[[EvaluationRequest], Evaluation | None]:
    """A verdict for `Landscape`: no problem runs."""

    def verdict(request: EvaluationRequest) -> Evaluation | None:
        raise ProblemError(complaint)

    return verdict


class Start:
    """Stands in for sketches: the one program, at random points."""

    name = "sketch"
    num_parents = (0, 0)
    from_failures = False

    def applies(self, context: OperatorContext) -> bool:
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        space = read_space(PROGRAM)
        point = {name: int(rng.choice(list(values))) for name, values in space.items()}
        return Proposal(source=PROGRAM, configurations=(point,), note="start")


START = Start()


def operators() -> dict[str, Operator]:
    return {**OPERATORS, "sketch": START}


class Landscape:
    """An evaluator that answers at once."""

    def __init__(
        self,
        *,
        in_flight: int = 4,
        delay_s: float = 0.0,
        verdict: Callable[[EvaluationRequest], Evaluation | None] | None = None,
    ) -> None:
        self.in_flight = in_flight
        self.delay_s = delay_s
        self.verdict = verdict
        self.requests: list[EvaluationRequest] = []
        self.points = 0
        self.is_closed = False

    async def start(self) -> Capacity:
        return Capacity(
            device=DEVICE,
            in_flight=self.in_flight,
            noise_floor=0.015,
            memory_bytes=1 << 30,
            referee_version="landscape-1",
        )

    async def graph(self, problem: Problem) -> OperatorGraph:
        return OperatorGraph(inputs=(), parameters={}, buffers={}, nodes=(), outputs=())

    async def lint(self, problem: Problem) -> Lint:
        return Lint(reason=problem.degenerate)

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        return ()

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        self.requests.append(request)
        if self.verdict is not None and (answer := self.verdict(request)) is not None:
            return answer
        await asyncio.sleep(self.delay_s)
        # Verdicts arrive in another order than they were asked for.
        for _ in range(len(request.candidate.id) % 3 + int(request.candidate.id[0], 16) % 4):
            await asyncio.sleep(0)
        return self.judge(request)

    async def close(self) -> None:
        self.is_closed = True

    def judge(self, request: EvaluationRequest) -> Evaluation:
        source = request.candidate.source
        points = list(request.configurations) or [read_configuration(source)]
        if points == [{}]:
            self.points += 1
            return fit(1.0, KernelFacts(launches=1, own_kernel_share=0.0, reuse=Reuse.LIBRARY))
        self.points += len(points)
        shift = request.problem.id
        speedups = [speedup_at(point, shift) for point in points]
        best = int(np.argmax(speedups))
        verify = request.purpose is Purpose.VERIFY
        evaluation = fit(
            speedups[best], facts_at(points[best]), Rung.VERIFY if verify else Rung.TIME
        )
        return replace(
            evaluation,
            configuration=points[best],
            configurations=tuple(
                ConfigurationResult(configuration=point, status=Status.OK, latency_ms=1 / speedup)
                for point, speedup in zip(points, speedups, strict=True)
            ),
        )


def config(*settings: str) -> RunConfig:
    return resolve(settings=[*SHAPE, *settings])


def new_store(
    folder: Path,
    run_config: RunConfig,
    count: int = 2,
    seeds: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> Store:
    return Store.create(
        folder,
        RunRecord(
            name=folder.name,
            created="2026-01-01T00:00:00+00:00",
            config_json=run_config.model_dump_json(),
            rng_seed=run_config.rng_seed,
            scale="tiny",
        ),
        problems=problems(count),
        seeds=seeds,
    )


def sit(store: Store, run_config: RunConfig, evaluator: Landscape | None = None) -> Ending:
    """One sitting of an engine on a store."""
    engine = Engine(
        store=store,
        config=run_config,
        evaluator=evaluator or Landscape(),
        operators=operators(),
    )
    return asyncio.run(engine.run())


def random_search(points: int, rng: np.random.Generator, shift: int) -> float:
    """The best speedup among so many points drawn uniformly."""
    drawn = rng.integers(len(VALUES), size=(points, len(NAMES)))
    return max(speedup_at(dict(zip(NAMES, map(int, row), strict=True)), shift) for row in drawn)


def best_of(store: Store, number: int = 1) -> float:
    return max(elite.objective_speedup for elite in store.elites(problem(number).key))


def kill_and_resume(folder: Path, delay_s: float, run_config: RunConfig) -> str:
    """Kill a run after so many seconds, resume it, and return its canonical export.

    The run lives in a fork of this process, so that no import is paid for again.
    """
    child = os.fork()
    if child == 0:
        with new_store(folder, run_config) as store:
            sit(store, run_config)
        os._exit(0)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        store = Store.open(folder, write=True)
    except StoreError:
        return ""  # The kill came before there was a run.
    with store:
        sit(store, run_config)
        return canonical_export(store)


def main(folder: Path, kills: int) -> None:
    """Print how many of so many killed and resumed runs end as an undisturbed one does."""
    run_config = config("search.islands=2", "rng_seed=5")
    started = time.monotonic()
    with new_store(folder / "undisturbed", run_config) as store:
        sit(store, run_config)
        expected = canonical_export(store)
    lasted_s = time.monotonic() - started
    rng = np.random.default_rng(0)
    ends: list[str] = []
    for number in range(3 * kills):
        end = kill_and_resume(folder / str(number), float(rng.uniform(0, lasted_s)), run_config)
        ends += [end] if end else []
        if len(ends) == kills:
            break
    same = sum(end == expected for end in ends)
    sys.stdout.write(f"{len(ends)} resumed, {same} the same")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
