"""How many candidates a second the engine does by itself, with an evaluator that answers at once.

    python benchmarks/engine_throughput.py [NUM_CANDIDATES] [FOLDER]

One problem, a database on disk, one commit for each verdict, candidates of 3 KB that all differ
in their syntax trees. Prints the rate, the rate of the last tenth over that of the first, CPU
time and bytes for each candidate beside their targets: the medians of five runs, since a tenth
lasts a second, in which a host that others share may be a tenth slower by itself.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from archives.evaluation import (
    DeviceFingerprint,
    Evaluation,
    Interval,
    KernelFacts,
    Reuse,
    Rung,
    Status,
)
from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evokernel.config import RunConfig, resolve
from evokernel.engine import Engine
from operators.operator import OperatorContext, Parent, Proposal
from operators.seeds import SEED
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem, Scale

RUNS = 5
DEVICE = DeviceFingerprint(kind="cpu", name="none", uuid="none", threads=1, versions={})
LINES = "\n".join(
    f"    s{i} = x[{i}] * 0.5f + {i}.0f; y[{i}] = s{i} > 0 ? s{i} : 0;" for i in range(48)
)
PROGRAM = f'''\
import ctypes

import torch
import torch.nn as nn

CPP_SOURCE = """
extern "C" void run(const float* x, float* y) {{
{LINES}
}}
"""
MARK = 0


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        ctypes.CDLL("kernel").run(x.data_ptr(), y.data_ptr())
        return y
'''


class Mint:
    """Makes a program that was never there, out of a parent or of nothing."""

    name = "mint"
    num_parents = (0, 1)
    from_failures = False

    def applies(self, context: OperatorContext) -> bool:
        """Return True."""
        return True

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        """Propose the parent with another mark."""
        source = parents[0].candidate.source if parents else PROGRAM
        head, _, rest = source.partition("MARK = ")
        tail = rest.partition("\n")[2]
        return Proposal(source=f"{head}MARK = {rng.integers(1 << 62)}\n{tail}", note="new mark")


@dataclass(slots=True)
class Instant:
    """Answers at once and notes the time."""

    times_s: list[float] = field(default_factory=list)
    cpu_times_s: list[float] = field(default_factory=list)
    source_bytes: int = 0

    async def start(self) -> Capacity:
        """Tell what can be taken."""
        return Capacity(device=DEVICE, in_flight=8, noise_floor=0.015, memory_bytes=1 << 30)

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Return an empty graph."""
        return OperatorGraph(inputs=(), parameters={}, buffers={}, nodes=(), outputs=())

    async def lint(self, problem: Problem) -> Lint:
        """Return what the problem says of itself."""
        return Lint(reason=problem.degenerate)

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Return nothing: nothing is compiled."""
        return ()

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Draw a verdict from the candidate's id."""
        self.times_s.append(time.perf_counter())
        self.cpu_times_s.append(time.process_time())
        self.source_bytes += len(request.candidate.source.encode())
        luck = int(request.candidate.id[:8], 16) / 2**32
        speedup = 0.5 + 2 * luck
        return Evaluation(
            status=Status.OK,
            rung=Rung.TIME,
            latency_ms=1 / speedup,
            reference_ms=1.0,
            speedup=speedup,
            matched_speedup=speedup,
            interval=Interval(low=speedup * 0.98, high=speedup * 1.02),
            facts=KernelFacts(
                launches=1 + int(8 * luck) % 5,
                own_kernel_share=1.0,
                reuse=Reuse.CACHE,
                work=16 << int(64 * luck) % 6,
            ),
            isolation="none",
            device=DEVICE,
            referee_version="instant",
            cost_s=0.3,
        )

    async def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one run took.

    Attributes:
        rate: Candidates a second.
        first: The same, of the first tenth.
        last: The same, of the last tenth.
        cpu_share: Last over first by the CPU time that they took.
        cpu_ms: CPU time of a candidate in ms.
        num_bytes: Bytes on disk for each candidate.
        source_bytes: Bytes of a source.
    """

    rate: float
    first: float
    last: float
    cpu_share: float
    cpu_ms: float
    num_bytes: float
    source_bytes: float


def main() -> None:
    """Run, and print what was measured."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    config = resolve(
        settings=[
            f"budget.max_evaluations={count}",
            "search.generations=100000",
            "search.proposals=8",
            "evaluation.verify=false",
        ]
    )
    problem = Problem(
        level=1, id=1, name="None", family="none", scale=Scale.TINY, source="class Model: pass"
    )
    record = RunRecord(
        name="throughput",
        created="",
        config_json=config.model_dump_json(),
        rng_seed=config.rng_seed,
        scale="tiny",
    )
    runs = [measure(problem, record, config, home) for _ in range(RUNS)]
    report(count, runs)


def measure(problem: Problem, record: RunRecord, config: RunConfig, home: Path | None) -> Figures:
    """Run once, in a folder of its own."""
    evaluator = Instant()
    with tempfile.TemporaryDirectory(dir=home) as parent:
        folder = Path(parent) / "run"
        with Store.create(folder, record) as store:
            store.add_problems([problem])
            engine = Engine(
                store=store,
                config=config,
                evaluator=evaluator,
                operators={"seed": SEED, "mint": Mint()},
            )
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            asyncio.run(engine.run())
            cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
            measured = store.counts().evaluations
        num_bytes = sum(path.stat().st_size for path in folder.glob("run.db*"))
    tenth = measured // 10
    first, last = _ends(evaluator.times_s, tenth)
    cpu_first, cpu_last = _ends(evaluator.cpu_times_s, tenth)
    return Figures(
        rate=measured / wall_s,
        first=first,
        last=last,
        cpu_share=cpu_last / cpu_first,
        cpu_ms=1000 * cpu_s / measured,
        num_bytes=num_bytes / measured,
        source_bytes=evaluator.source_bytes / measured,
    )


def report(count: int, runs: Sequence[Figures]) -> None:
    """Print the figures beside their targets."""

    def middle(figure: Callable[[Figures], float]) -> float:
        return median(map(figure, runs))

    shares = ", ".join(f"{run.last / run.first:.2f}" for run in runs)
    source = middle(lambda run: run.source_bytes)
    print(f"candidates            {count:,} in each of {len(runs)} runs; medians:")
    print(f"candidates/s          {middle(lambda run: run.rate):.1f} (target: at least 100)")
    print(f"first {count // 10:,}/s".ljust(22) + f"{middle(lambda run: run.first):.1f}")
    print(f"last {count // 10:,}/s".ljust(22) + f"{middle(lambda run: run.last):.1f}")
    share = middle(lambda run: run.last / run.first)
    print(f"last over first       {share:.2f} (target: at least 0.9; {shares})")
    print(f"the same by CPU time  {middle(lambda run: run.cpu_share):.2f}")
    print(f"CPU ms/candidate      {middle(lambda run: run.cpu_ms):.2f} (target: at most 15)")
    print(
        f"bytes/candidate       {middle(lambda run: run.num_bytes):,.0f} with sources of "
        f"{source:,.0f} (target: at most {2 * source + 4096:,.0f})"
    )


def _ends(times_s: Sequence[float], tenth: int) -> tuple[float, float]:
    """Candidates a second in the first and in the last tenth."""
    return (
        tenth / (times_s[tenth] - times_s[0]),
        tenth / (times_s[-1] - times_s[-1 - tenth]),
    )


if __name__ == "__main__":
    main()
