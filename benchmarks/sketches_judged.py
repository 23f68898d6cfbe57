"""What the referee says of every sketch: its default and the best of some random configurations.

    python benchmarks/sketches_judged.py [--device cuda] [--scale official] [--ids 1,19-25]
        [--points 6] [--only triton-sweep] [--files PROBLEM.py ...] [--out FILE]

One line of JSON for each problem and sketch as soon as it is judged: status, speedup over eager
with its 99 % interval, ms, error, every configuration with its time. Several are judged at a time,
as in a search; the numbers are those of the search, not verified.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from archives.candidate import Candidate
from archives.configuration import Configuration, read_configuration, read_space
from archives.evaluation import Evaluation
from evaluator.evaluator import EvaluationRequest, Evaluator
from evaluator.local import LocalEvaluator
from operators.sketches.registry import SKETCHES
from operators.sketches.sketch import Sketch
from problems.catalogue import load_level, parse_ids
from problems.errors import EvoKernelError
from problems.loaders import load_file
from problems.problem import Problem, Scale


def main() -> None:
    """Judge every sketch that fits a problem."""
    options = _options()
    scale = Scale(options.scale or ("official" if options.device == "cuda" else "small"))
    ids = parse_ids(options.ids) if options.ids else None
    problems = tuple(map(load_file, options.files)) or load_level(1, scale, ids)
    with open(options.out, "a") if options.out else sys.stdout as out:
        asyncio.run(_judge_all(problems, options, out))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--scale", choices=("official", "small", "tiny"))
    parser.add_argument("--ids", default="")
    parser.add_argument("--points", type=int, default=6, help="random configurations of each")
    parser.add_argument("--only", default="", help="sketches whose name begins so")
    parser.add_argument("--files", type=Path, nargs="+", default=(), help="in place of level 1")
    parser.add_argument("--out", type=Path, help="file to add to; default: stdout")
    return parser.parse_args()


async def _judge_all(
    problems: tuple[Problem, ...], options: argparse.Namespace, out: TextIO
) -> None:
    evaluator = LocalEvaluator(device=options.device)
    try:
        capacity = await evaluator.start()
        judging = _Judging(
            evaluator=evaluator,
            places=asyncio.Semaphore(capacity.in_flight),
            points=options.points,
            out=out,
        )
        sketches = [
            sketch
            for sketch in SKETCHES
            if sketch.device == options.device and sketch.name.startswith(options.only)
        ]
        await asyncio.gather(*(judging.problem(problem, sketches) for problem in problems))
    finally:
        await evaluator.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judging:
    """One going through problems and sketches.

    Attributes:
        evaluator: Has started.
        places: Requests that may be outstanding.
        points: Random configurations of each sketch, besides its default.
        out: Where lines go.
    """

    evaluator: Evaluator
    places: asyncio.Semaphore
    points: int
    out: TextIO

    async def problem(self, problem: Problem, sketches: list[Sketch]) -> None:
        """Judge the sketches that fit a problem, one after the other."""
        async with self.places:
            try:
                graph = await self.evaluator.graph(problem)
                for sketch in sketches:
                    source = sketch.write(problem, graph)
                    if source is not None:
                        await self._one(problem, sketch, source)
            except EvoKernelError as error:
                self._say(problem, "", {"error": str(error)})

    async def _one(self, problem: Problem, sketch: Sketch, source: str) -> None:
        rng = np.random.default_rng([problem.id, *map(ord, sketch.name)])
        request = EvaluationRequest(
            problem=problem,
            candidate=Candidate.of(problem.key, source),
            configurations=_points(source, self.points, rng),
        )
        self._say(problem, sketch.name, _facts(await self.evaluator.evaluate(request)))

    def _say(self, problem: Problem, sketch: str, facts: dict[str, Any]) -> None:
        about = {"id": problem.id, "name": problem.name, "sketch": sketch}
        print(json.dumps({**about, **facts}), file=self.out, flush=True)


def _points(source: str, count: int, rng: np.random.Generator) -> tuple[Configuration, ...]:
    """The default configuration and some random ones."""
    space = read_space(source)
    found: list[Configuration] = [read_configuration(source)]
    for _ in range(count):
        point = {name: values[int(rng.integers(len(values)))] for name, values in space.items()}
        if point not in found:
            found.append(point)
    return tuple(found)


def _facts(verdict: Evaluation) -> dict[str, Any]:
    interval = verdict.interval
    return {
        "status": verdict.status.value,
        "reason": verdict.reason,
        "speedup": verdict.speedup,
        "low": None if interval is None else interval.low,
        "ms": verdict.latency_ms,
        "reference_ms": verdict.reference_ms,
        "error": verdict.error,
        "own_kernel_share": verdict.facts.own_kernel_share,
        "seconds": verdict.cost_s,
        "log": verdict.log[-400:],
        "tried": [
            {"configuration": dict(r.configuration), "status": r.status.value, "ms": r.latency_ms}
            for r in verdict.configurations
        ],
    }


if __name__ == "__main__":
    main()
