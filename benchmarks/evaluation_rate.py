"""How many distinct kernels a second the evaluator judges on this host.

    python benchmarks/evaluation_rate.py [--candidates N]

ReLU over 4 MB, about 1 ms a call; each candidate is a C++ kernel of its own, built with g++,
checked on five distributions and timed in five blocks. As many requests are
kept in flight as the evaluator asks for.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter

from archives.candidate import Candidate
from archives.evaluation import Evaluation
from evaluator.evaluator import EvaluationRequest
from evaluator.local import LocalEvaluator
from problems.problem import Problem, Scale

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
"""

CANDIDATE = '''
import ctypes
import os
import subprocess

import torch
from torch import nn

CPP_SOURCE = """
extern "C" void run(const float* in, float* out, long n) {
    for (long i = 0; i < n; i += %(step)d)
        #pragma omp simd
        for (long j = 0; j < %(step)d; ++j) out[i + j] = in[i + j] > 0 ? in[i + j] : 0;
}
"""


def _load():
    folder = os.environ["EVOKERNEL_BUILD_DIR"]
    library = folder + "/k%(number)d.so"
    if not os.path.exists(library):
        with open(folder + "/k.cpp", "w") as file:
            file.write(CPP_SOURCE)
        flags = ["-O3", "-march=native", "-fopenmp-simd", "-shared", "-fPIC"]
        subprocess.run(["g++", folder + "/k.cpp", *flags, "-o", library], check=True)
    return ctypes.CDLL(library)


_LIBRARY = _load()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, out)]
        _LIBRARY.run(*pointers, ctypes.c_long(x.numel()))
        return out
'''


async def measure(count: int) -> tuple[list[Evaluation], float]:
    """Judge some distinct candidates; return the verdicts and the seconds they took."""
    problem = Problem(
        level=0, id=1, name="ReLU", family="bench", scale=Scale.CUSTOM, source=PROBLEM
    )
    evaluator = LocalEvaluator()
    await evaluator.start()
    try:

        async def judge(number: int) -> Evaluation:
            source = CANDIDATE % {"step": 16 << (number % 5), "number": number}
            candidate = Candidate.of(problem.key, source)
            request = EvaluationRequest(problem=problem, candidate=candidate)
            return await evaluator.evaluate(request)

        await judge(0)
        start = time.perf_counter()
        verdicts = await asyncio.gather(*(judge(number) for number in range(1, count + 1)))
        return list(verdicts), time.perf_counter() - start
    finally:
        await evaluator.close()


def main() -> None:
    """Print the rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=30)
    count = parser.parse_args().candidates
    verdicts, elapsed_s = asyncio.run(measure(count))
    print(f"verdicts            {dict(Counter(str(v.status) for v in verdicts))}")
    print(f"reference           {max(v.reference_ms or 0 for v in verdicts):.3f} ms")
    print(f"evaluations/second  {count / elapsed_s:.2f} (goal: at least 3 on 2 quiet cores)")


if __name__ == "__main__":
    main()
