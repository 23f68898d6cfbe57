"""How many kernels and configurations an hour one GPU judges, and what bounds it.

    python benchmarks/cuda_rates.py softmax [--count N]       problem 23, small scale
    python benchmarks/cuda_rates.py layernorm [--count N]     problem 40, official scale
    python benchmarks/cuda_rates.py tuning [--count N]        configurations of one program, 23
    python benchmarks/cuda_rates.py pool --gpus 2 [--count N] problem 23 by a pool of referees

Each candidate is a correct Triton kernel of its own, built, checked and timed through rung 4, with
as many requests in flight as the evaluator asks for. Prints JSON. Nothing else may use the GPUs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from archives.candidate import Candidate
from archives.configuration import Configuration
from archives.evaluation import Evaluation
from evaluator.evaluator import EvaluationRequest
from evaluator.gate import Gate
from evaluator.pool import Pool
from evaluator.referee.cuda.device import gpu_of
from evaluator.referee.cuda.station import CudaStation
from evaluator.referee.referee import Referee
from problems.catalogue import load_level
from problems.problem import Problem, Scale

SOFTMAX = """
import torch
import triton
import triton.language as tl
from torch import nn

TUNE_PARAMS = {
    "BLOCK": [1024, 2048, 4096, 8192],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}
CONFIG = {"BLOCK": 4096, "num_warps": 8, "num_stages": 2}


@triton.jit
def softmax_kernel_%(number)d(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, n, BLOCK):
        inside = first + at < n
        values = tl.load(x + row * n + first + at, mask=inside, other=float("-inf"))
        higher = tl.maximum(largest, values)
        total = tl.where(inside, total * tl.exp(largest - higher) + tl.exp(values - higher), total)
        largest = higher
    most = tl.max(largest, 0)
    whole = tl.sum(total * tl.exp(largest - most), 0)
    for first in range(0, n, BLOCK):
        inside = first + at < n
        values = tl.load(x + row * n + first + at, mask=inside, other=float("-inf"))
        tl.store(y + row * n + first + at, tl.exp(values - most) / whole, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax_kernel_%(number)d[(x.shape[0],)](x, y, x.shape[1], **CONFIG)
        return y
"""
LAYERNORM = """
import torch
import triton
import triton.language as tl
from torch import nn

CONFIG = {"BLOCK": %(block)d, "num_warps": 8}


@triton.jit
def moments_%(number)d(x, parts, n, BLOCK: tl.constexpr):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    values = tl.load(x + row * n + part * BLOCK + tl.arange(0, BLOCK))
    mean = tl.sum(values, 0) / BLOCK
    place = parts + (row * tl.num_programs(0) + part) * 2
    tl.store(place, mean)
    tl.store(place + 1, tl.sum((values - mean) * (values - mean), 0))


@triton.jit
def normalise_%(number)d(x, y, weight, bias, facts, n, BLOCK: tl.constexpr):
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = part * BLOCK + tl.arange(0, BLOCK)
    mean, scale = tl.load(facts + row * 2), tl.load(facts + row * 2 + 1)
    values = (tl.load(x + row * n + at) - mean) * scale
    tl.store(y + row * n + at, values * tl.load(weight + at) + tl.load(bias + at))


class ModelNew(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.ln = nn.LayerNorm(shape)

    def forward(self, x):
        y, rows = torch.empty_like(x), x.shape[0]
        n, block = x[0].numel(), CONFIG["BLOCK"]
        parts = torch.empty(rows, n // block, 2, device=x.device)
        grid = (n // block, rows)
        moments_%(number)d[grid](x, parts, n, **CONFIG)
        means, squares = parts[..., 0], parts[..., 1].sum(1)
        mean = means.mean(1)
        variance = (squares + block * (means - mean[:, None]).square().sum(1)) / n
        facts = torch.stack([mean, torch.rsqrt(variance + self.ln.eps)], 1)
        normalise_%(number)d[grid](x, y, self.ln.weight, self.ln.bias, facts, n, **CONFIG)
        return y
"""
BATCH = 32
"""Configurations of one request while tuning; two requests are in flight."""


class MeasuredGate(Gate):
    """Adds up how long the device is held alone, and how long that was waited for."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.held_s = self.waited_s = 0.0

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone, by the clock."""
        asked = time.perf_counter()
        with super().exclusive():
            entered = time.perf_counter()
            self.waited_s += entered - asked
            try:
                yield
            finally:
                self.held_s += time.perf_counter() - entered


def softmax() -> Problem:
    """Problem 23 at small scale."""
    return load_level(1, Scale.SMALL, [23])[0]


def candidates(kind: str, count: int) -> list[EvaluationRequest]:
    """Distinct kernels for a problem."""
    if kind == "layernorm":
        problem = load_level(1, Scale.OFFICIAL, [40])[0]
        sources = [LAYERNORM % {"number": n, "block": 1024 << (n % 4)} for n in range(count)]
    else:
        problem = softmax()
        sources = [SOFTMAX % {"number": n} for n in range(count)]
    found = [Candidate.of(problem.key, source) for source in sources]
    return [EvaluationRequest(problem=problem, candidate=one) for one in found]


def tunings(count: int) -> list[EvaluationRequest]:
    """One program, its configurations in batches."""
    problem = softmax()
    space = itertools.product((1024, 2048, 4096, 8192), (2, 4, 8, 16), (1, 2, 3, 4))
    points: list[Configuration] = [
        {"BLOCK": block, "num_warps": warps, "num_stages": stages} for block, warps, stages in space
    ]
    wanted = list(itertools.islice(itertools.cycle(points), count))
    return [
        EvaluationRequest(
            problem=problem,
            # Repeated points are of another program, whose kernels must be compiled anew.
            candidate=Candidate.of(problem.key, SOFTMAX % {"number": 1000 + first // len(points)}),
            configurations=tuple(wanted[first : first + BATCH]),
        )
        for first in range(0, count, BATCH)
    ]


def judged_here(requests: Sequence[EvaluationRequest], in_flight: int | None) -> dict[str, Any]:
    """Judge by one referee of this process."""
    gate = MeasuredGate(f"cuda-{gpu_of(0).uuid}")
    referee = Referee(CudaStation(gate=gate))
    try:
        opening = time.perf_counter()
        first = requests[0]
        referee.evaluate(EvaluationRequest(problem=first.problem, candidate=first.candidate))
        gate.held_s = gate.waited_s = 0.0
        before, start = _cpu_s(), time.perf_counter()
        with ThreadPoolExecutor(in_flight or referee.in_flight) as threads:
            verdicts = list(threads.map(referee.evaluate, requests[1:] or requests))
        elapsed_s = time.perf_counter() - start
    finally:
        referee.close()
    return {
        **_counted(verdicts, elapsed_s),
        "opening_s": round(start - opening, 1),
        "gate_held_s": round(gate.held_s, 1),
        "waited_for_gate_s": round(gate.waited_s, 1),
        "cost_s_median": round(sorted(v.cost_s for v in verdicts)[len(verdicts) // 2], 2),
        "cpu_s": round(_cpu_s() - before, 1),
        "cores": os.cpu_count(),
    }


def judged_by_pool(requests: Sequence[EvaluationRequest], gpus: int) -> dict[str, Any]:
    """Judge by a pool with a referee for each GPU."""

    async def judge() -> dict[str, Any]:
        pool = Pool(device="cuda", num_actors=gpus, calibrate=False)
        capacity = await pool.start()
        try:
            # Each referee opens the problem once.
            await asyncio.gather(*map(pool.evaluate, requests[: capacity.in_flight]))
            rest = requests[capacity.in_flight :]
            start = time.perf_counter()
            verdicts = await asyncio.gather(*map(pool.evaluate, rest))
            return _counted(verdicts, time.perf_counter() - start)
        finally:
            await pool.close()

    return asyncio.run(judge())


def _counted(verdicts: Sequence[Evaluation], elapsed_s: float) -> dict[str, Any]:
    points = sum(len(verdict.configurations) for verdict in verdicts)
    rates = {"evaluations_an_hour": round(3600 * len(verdicts) / elapsed_s)}
    if points:
        rates["configurations_an_hour"] = round(3600 * points / elapsed_s)
    return {
        **rates,
        "seconds": round(elapsed_s, 1),
        "verdicts": dict(Counter(f"{v.status} {v.reason}".strip() for v in verdicts)),
        "points": dict(Counter(str(c.status) for v in verdicts for c in v.configurations)),
    }


def _cpu_s() -> float:
    """CPU time of this process and of those that ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    gone = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + gone.ru_utime + gone.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("softmax", "layernorm", "tuning", "pool"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--in-flight", type=int)
    options = parser.parse_args()
    if options.what == "pool":
        found = judged_by_pool(candidates("softmax", options.count), options.gpus)
    elif options.what == "tuning":
        found = judged_here(tunings(options.count), options.in_flight or 2)
    else:
        found = judged_here(candidates(options.what, options.count), options.in_flight)
    print(json.dumps({"what": options.what, "gpus": options.gpus, **found}))


if __name__ == "__main__":
    main()
