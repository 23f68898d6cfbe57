"""How many candidates a second a search does whose children come from a language model.

    python benchmarks/llm_throughput.py [NUM_CANDIDATES] [FOLDER]

A scripted model is served over HTTP by a process of its own; candidates of 4 to 8 KB, each another
program; an evaluator that takes 20 ms for each and four at a time; a database on disk. Prints, for
a model that answers after 50 ms and one that takes a second, the rate, the rate of the last
quarter over that of the first, memory, and CPU time: of a candidate, and of the engine around each
call, over a plain call of litellm that was measured before and after (`llm_calls.py`); then
how fast the host was, and what becomes of repeated replies and of replies without a program.

With fewer than the 2,000 candidates of the default, calls that are still under way at the end weigh
more, so that a candidate seems to take more than it does.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

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
from benchmarks.llm_calls import Calls, Share, calls_at_once, calls_spaced
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evokernel.config import resolve
from evokernel.launch import Plan, load_operators, sit
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem, Scale
from tests.scripted_llm import Reply, Request, ScriptedServer, fenced, slow

DEVICE = DeviceFingerprint(kind="cpu", name="none", uuid="none", threads=1, versions={})
EVALUATION_S = 0.02
EVALUATION_SLOTS = 4
PROBLEMS = 8
PROGRAM = '''\
import ctypes

import torch
from torch import nn

TUNE_PARAMS = {{"TILE": [4, 8, 16], "UNROLL": [1, 2, 4]}}
CONFIG = {{"TILE": 8, "UNROLL": 2}}

CPP_SOURCE = r"""
#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, float* y, int64_t rows, int64_t columns) {{
{lines}
}}
"""
MARK = {mark}


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        ctypes.CDLL("kernel").run(x.data_ptr(), y.data_ptr(), *x.shape)
        return y
'''


def program(mark: int) -> str:
    """A program of 4 to 8 KB that no other mark gives."""
    column = mark % 97
    lines = "\n".join(
        f"  for (int64_t r = {i}; r < rows; r += TILE) y[r] = std::exp(x[r * columns + {column}]);"
        for i in range(45 + mark % 50)
    )
    return PROGRAM.format(lines=lines, mark=mark)


class Model:
    """A script: a new program each time, or what else a benchmark is about."""

    def __init__(self, kind: str) -> None:
        """Choose.

        Args:
            kind: "new", "half repeated" or "mostly prose".
        """
        self._kind = kind
        self._asked = 0

    def __call__(self, request: Request) -> Reply:
        """Answer."""
        self._asked += 1
        if self._kind == "mostly prose" and self._asked % 5 not in (0, 3):
            return Reply(text="One could fuse the loops, and keep the sum in a register.")
        is_repeat = self._kind == "half repeated" and self._asked % 2
        return Reply(text=fenced(program(self._asked // 20 if is_repeat else self._asked)))


def serve(kind: str, delay_s: float, pipe: Connection) -> None:
    """Serve until the pipe is closed; the process of the model."""
    with ScriptedServer(slow(Model(kind), delay_s)) as server:
        pipe.send(server.url)
        pipe.recv()


@contextmanager
def model(kind: str, delay_s: float) -> Iterator[str]:
    """A model in a process of its own; its address."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(kind, delay_s, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
        ours.send("stop")
    finally:
        process.join(10)
        process.kill()


@dataclass(slots=True)
class Slow:
    """Takes 20 ms for each candidate and four at a time; notes when each was done."""

    count: int
    times_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    source_bytes: int = 0
    busy_s: float = 0.0
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(EVALUATION_SLOTS))

    async def start(self) -> Capacity:
        """Tell what can be taken."""
        return Capacity(
            device=DEVICE, in_flight=EVALUATION_SLOTS, noise_floor=0.015, memory_bytes=1 << 30
        )

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
        """Draw a verdict from the candidate's id, after a while."""
        self.asked[request.candidate.id] += 1
        self.source_bytes += len(request.candidate.source.encode())
        async with self.slots:
            await asyncio.sleep(EVALUATION_S)
        self.times_s.append(time.perf_counter())
        self.cpu_s.append(time.process_time())
        if len(self.times_s) % max(1, self.count // 8) == 0:
            self.memory_mb.append(_memory_mb())
        luck = int(request.candidate.id[:8], 16) / 2**32
        speedup = 0.5 + 2 * luck
        if luck < 0.2:
            return Evaluation(
                status=Status.WRONG_VALUE, reason="wrong_value", log="largest error 3.2 at 17"
            )
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
            referee_version="slow",
            cost_s=0.3,
        )

    async def close(self) -> None:
        """Nothing was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one search did.

    Attributes:
        evaluator: Its times.
        calls: Calls to the model.
        prompt_bytes: Mean size of a prompt.
        wall_s: Seconds in all.
        cpu_s: CPU seconds of the search's process.
    """

    evaluator: Slow
    calls: int
    prompt_bytes: int
    wall_s: float
    cpu_s: float

    @property
    def measured(self) -> int:
        """Candidates that were measured."""
        return len(self.evaluator.times_s)

    def rate(self, first: float, last: float) -> float:
        """Candidates a second between two parts of the run, 0 to 1."""
        times = self.evaluator.times_s
        begin, end = int(first * (len(times) - 1)), int(last * (len(times) - 1))
        return (end - begin) / (times[end] - times[begin])


def search(url: str, count: int, home: Path | None) -> Measured:
    """Search until so many candidates are measured."""
    config = resolve(
        settings=[
            f"budget.max_evaluations={count}",
            "search.generations=100000",
            "search.proposals=8",
            "evaluation.verify=false",
            'operators.use=["llm.translate", "llm.mutate", "llm.crossover", "llm.repair"]',
            f'llm.api_base="{url}"',
            "llm.in_flight=64",
        ],
        flags={"llm.models": ("openai/scripted",)},
    )
    problems = [
        Problem(
            level=1,
            id=number,
            name=f"Fake{number}",
            family="fake",
            scale=Scale.TINY,
            source=f"SIZE = {number}\n\n\nclass Model:\n    pass\n",
        )
        for number in range(1, PROBLEMS + 1)
    ]
    plan = Plan(
        config=config, problems=tuple(problems), operators=load_operators(config), device="cpu"
    )
    record = RunRecord(
        name="throughput",
        created="",
        config_json=config.model_dump_json(),
        rng_seed=config.rng_seed,
        scale="tiny",
    )
    evaluator = Slow(count)
    with (
        tempfile.TemporaryDirectory(dir=home) as parent,
        Store.create(Path(parent) / "run", record, problems=problems) as store,
    ):
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        sit(store, plan, evaluator=evaluator)
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
        sizes = [
            sum(len(message.text) for message in call.messages) for call in store.recorded_calls()
        ]
        return Measured(
            evaluator=evaluator,
            calls=len(sizes),
            prompt_bytes=sum(sizes) // len(sizes),
            wall_s=wall_s,
            cpu_s=cpu_s,
        )


def main() -> None:
    """Run all, and print what was measured beside the targets."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    home = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    print(f"{os.cpu_count()} cores, {EVALUATION_SLOTS} evaluations of 20 ms at a time")
    with model("new", 0.05) as near, model("new", 1.0) as far:
        # What is imported at first use is no part of the rate; it tells how long prompts are, too.
        text = prompt_of(search(near, min(count, 300), home))
        before, loops_s = calls_at_once(near, text), [_loop_s()]
        rounds = [before]
        for title, url, target in (
            ("model answers after 50 ms", near, 80),
            ("model answers after 1 s", far, 50),
        ):
            found = search(url, count, home)
            text = prompt_of(found)
            after = calls_at_once(near, text)
            loops_s.append(_loop_s())
            report(title, found, before + after, target=target)
            rounds.append(after)
            before = after
        report_calls(rounds, calls_spaced(near, text), len(text))
    report_host(loops_s)
    with model("half repeated", 0.05) as url:
        half = search(url, count // 2, home)
    twice = sum(times > 1 for times in half.evaluator.asked.values())
    print("half the replies repeated")
    print(f"  candidates          {half.measured:,} of {half.calls:,} replies")
    print(f"  evaluated twice     {twice} (target: 0)")
    with model("mostly prose", 0.05) as url:
        prose = search(url, count // 2, home)
    print("60 % of the replies without a program")
    print(f"  candidates          {prose.measured:,} of {count // 2:,} asked for")
    print(f"  calls               {prose.calls:,}")


def prompt_of(found: Measured) -> str:
    """A prompt as long as those of a search."""
    return (program(1) * 20)[: found.prompt_bytes]


def report(title: str, found: Measured, around: Calls, *, target: float) -> None:
    """Print the figures of one search, and of calls before and after it."""
    memory = found.evaluator.memory_mb
    first, last = found.rate(0, 0.25), found.rate(0.75, 1)
    share = Share.of(around, cpu_s=found.cpu_s, calls=found.calls, candidates=found.measured)
    size = found.evaluator.source_bytes / found.measured
    print(title)
    print(f"  candidates          {found.measured:,} of {size:,.0f} bytes")
    print(f"  calls               {found.calls:,} with prompts of {found.prompt_bytes:,} bytes")
    print(f"  candidates/s        {found.measured / found.wall_s:.1f} (target: at least {target})")
    print(f"  first quarter/s     {first:.1f}")
    print(f"  last quarter/s      {last:.1f}")
    print(f"  last over first     {last / first:.2f} (target: at least 0.9)")
    print(f"  memory MB           {', '.join(f'{each:.0f}' for each in memory)} (target: flat)")
    print(f"  CPU ms/candidate    {1000 * share.candidate_s:.2f}")
    print("\n".join(share.lines()), flush=True)


def report_calls(rounds: Sequence[Calls], spaced: Calls, prompt_bytes: int) -> None:
    """Print what calls by themselves took."""
    print(f"CPU ms of a call by itself, with a prompt of {prompt_bytes:,} bytes: median, range")
    for name, found_s in (
        ("64 at a time       ", [each for one in rounds for each in one.ours_s]),
        ("plain, 64 at a time", [each for one in rounds for each in one.plain_s]),
        ("one every 12 ms    ", spaced.ours_s),
        ("plain, every 12 ms ", spaced.plain_s),
    ):
        extent = f", {1000 * min(found_s):.2f} to {1000 * max(found_s):.2f}"
        print(f"  {name} {1000 * median(found_s):.2f}{extent if len(found_s) > 1 else ''}")


def report_host(loops_s: Sequence[float]) -> None:
    """Print how fast the host was; it has no influence on ratios, but on milliseconds and rates."""
    each = ", ".join(f"{loop_s:.2f}" for loop_s in loops_s)
    print("host, before and after each of the two: a loop of ten million additions")
    print(f"  CPU s               {each} (slowest over fastest: {max(loops_s) / min(loops_s):.2f})")
    print(f"  load average        {os.getloadavg()[0]:.1f}", flush=True)


def _loop_s() -> float:
    """How slow this machine is now; about 0.5 s on a core of its own of these years."""
    started, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - started


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
