"""Speedups of the C++ sketches over eager torch at `small` scale, one thread, in this process.

Usage: MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456 \
    python benchmarks/sketch_speedups.py [IDS] [POINTS]

For each problem (all, or such as 19-40,88) and sketch: eager's time, and the speedups of the
default configuration and of the best of POINTS random ones (default 8). Quick medians for tuning;
the referee's numbers are the ones that count (`benchmarks/sketches_judged.py`).
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from archives.configuration import (
    Configuration,
    read_configuration,
    read_space,
    with_configuration,
)
from operators.sketches.registry import SKETCHES
from problems.catalogue import load_level, parse_ids
from problems.problem import Scale
from problems.trace import trace


def load(source: str, folder: Path, name: str) -> ModuleType:
    """Import a module from its text."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def median_ms(call: Callable[[], object], budget_s: float = 0.15) -> float:
    """Return the median time of a call in ms, over at least five calls."""
    call()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < budget_s:
        before = time.perf_counter()
        call()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1e3


def points(source: str, count: int, rng: np.random.Generator) -> list[Configuration]:
    """Return the default configuration and some random ones."""
    found: list[Configuration] = [read_configuration(source)]
    space = read_space(source)
    for _ in range(count):
        found.append(
            {name: values[int(rng.integers(len(values)))] for name, values in space.items()}
        )
    return found


def main() -> None:
    """Print one line for each problem and sketch."""
    ids = parse_ids(sys.argv[1]) if len(sys.argv) > 1 else None
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = Path(name)
        os.environ["EVOKERNEL_BUILD_DIR"] = name
        for problem in load_level(1, Scale.SMALL, ids):
            graph = trace(problem.source)
            reference = load(problem.source, folder, f"reference_{problem.id}")
            init = reference.get_init_inputs()
            inputs = reference.get_inputs()
            model = reference.Model(*init)
            eager_ms = median_ms(lambda m=model, i=inputs: m(*i))  # type: ignore[misc]
            for sketch in SKETCHES:
                source = sketch.write(problem, graph) if sketch.device == "cpu" else None
                if source is None:
                    continue
                times = []
                for number, point in enumerate(points(source, count, rng)):
                    text = with_configuration(source, point)
                    module = load(text, folder, f"sketch_{problem.id}_{number}")
                    new = module.ModelNew(*init)
                    new.load_state_dict(model.state_dict())
                    times.append((median_ms(lambda m=new, i=inputs: m(*i)), point))  # type: ignore[misc]
                best_ms, best = min(times, key=lambda item: item[0])
                print(
                    f"{problem.label:45s} {sketch.name:24s} eager {eager_ms:7.3f} ms  "
                    f"default {eager_ms / times[0][0]:5.2f}x  best {eager_ms / best_ms:5.2f}x "
                    f"{dict(best)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
