"""Eager time and memory of each level-1 problem at `small` scale, on one CPU core.

The rule of the catalogue: at most 16 MB of inputs, weights and outputs, about 1 to 5 ms.

    python benchmarks/small_scale_times.py [IDS, such as 1,19-25]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import ModuleType

import torch

from problems.catalogue import load_level, parse_ids
from problems.footprint import tensor_bytes
from problems.problem import Problem, Scale
from problems.trace import trace

_LIMIT_MB = 16.0
_CALLS = 15


def median_ms(call: Callable[[], object], calls: int = _CALLS) -> float:
    """Return the median time of a call in milliseconds, after two that warm up."""
    times = []
    for index in range(calls + 2):
        start = time.perf_counter()
        call()
        if index >= 2:
            times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[calls // 2]


def measure(problem: Problem) -> tuple[float, float]:
    """Return the eager time in ms and the tensors' size in MB of a problem."""
    module = ModuleType("problem")
    exec(compile(problem.source, problem.label, "exec"), module.__dict__)  # noqa: S102 - our own
    torch.manual_seed(0)
    model = module.Model(*module.get_init_inputs())
    inputs = module.get_inputs()
    with torch.no_grad():
        elapsed_ms = median_ms(lambda: model(*inputs))
    return elapsed_ms, tensor_bytes(trace(problem.source)) / 1e6


def main() -> None:
    """Print one line for each problem and a summary."""
    torch.set_num_threads(1)
    ids = parse_ids(sys.argv[1]) if len(sys.argv) > 1 else None
    problems = load_level(1, Scale.SMALL, ids)
    within = total_ms = 0.0
    for problem in problems:
        elapsed_ms, size_mb = measure(problem)
        holds = 1.0 <= elapsed_ms <= 5.0 and size_mb <= _LIMIT_MB
        within += holds
        total_ms += elapsed_ms
        mark = "" if holds else "  outside the rule"
        print(f"{problem.label:72.72s} {elapsed_ms:7.2f} ms {size_mb:6.2f} MB{mark}")
    print(f"{within:.0f} of {len(problems)} within 1-5 ms and 16 MB; {total_ms:.0f} ms in all")


if __name__ == "__main__":
    main()
