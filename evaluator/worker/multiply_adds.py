"""The most float32 operations that a CPU does: chains of multiply-adds that stay in its registers.

A product of torch's is no measure of that: on one core of an AMD EPYC with AVX-512 it reached 92
GFLOP/s, these chains 240.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

__all__ = ["multiply_add_tflops"]

_TRIES = 8
_STEPS = 1 << 19
"""Of each chain in one try: some 2 ms."""
_SOURCE = r"""
#include <thread>
#include <vector>

#if defined(__AVX512F__)
enum { BYTES = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { BYTES = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { BYTES = 16, CHAINS = 24 };
#else
enum { BYTES = 16, CHAINS = 12 };
#endif
typedef float Lanes __attribute__((vector_size(BYTES)));

static void run(Lanes* out, long steps, float factor, float term) {
    Lanes chain[CHAINS], factors, terms;
    for (int lane = 0; lane < BYTES / 4; ++lane) {
        factors[lane] = factor;
        terms[lane] = term;
    }
    for (int i = 0; i < CHAINS; ++i) chain[i] = terms * (float)i;
    for (long n = 0; n < steps; ++n) {
#pragma GCC unroll 32
        for (int i = 0; i < CHAINS; ++i) chain[i] = chain[i] * factors + terms;
    }
    for (int i = 1; i < CHAINS; ++i) chain[0] += chain[i];
    *out = chain[0];
}

// Runs one thread for each output and returns how many operations they did together.
extern "C" double multiply_add(float* out, long threads, long steps) {
    std::vector<std::thread> others;
    std::vector<Lanes> sums(threads);
    for (long t = 1; t < threads; ++t)
        others.emplace_back(run, &sums[t], steps, 0.5f, 0.25f);
    run(&sums[0], steps, 0.5f, 0.25f);
    for (auto& other : others) other.join();
    for (long t = 0; t < threads; ++t) out[t] = sums[t][0];
    return 2.0 * (BYTES / 4) * CHAINS * (double)steps * (double)threads;
}
"""
_FLAGS = ("-O2", "-march=native", "-std=c++17", "-shared", "-fPIC", "-pthread", "-w")


def multiply_add_tflops(threads: int) -> float:
    """Return the best rate of float32 multiply-adds of a number of threads, TFLOP/s.

    Each counts as two operations. Chains as wide as the vector registers, and enough of them to
    hide how long one step takes, best of eight tries.

    Args:
        threads: How many run beside each other, at least 1; the first is the caller's.

    Raises:
        RuntimeError: g++ is missing or does not build them.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "multiply_adds.so"
        command = ["g++", *_FLAGS, "-x", "c++", "-", "-o", str(path)]
        try:
            subprocess.run(  # noqa: S603 - a fixed command
                command, input=_SOURCE, capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise RuntimeError(f"g++ built no multiply-adds: {error}") from error
        library = ctypes.CDLL(str(path))
    library.multiply_add.restype = ctypes.c_double
    out = (ctypes.c_float * threads)()
    arguments = (out, ctypes.c_long(threads), ctypes.c_long(_STEPS))
    best = 0.0
    for _ in range(_TRIES):
        start = time.perf_counter()
        operations = library.multiply_add(*arguments)
        best = max(best, operations / (time.perf_counter() - start) / 1e12)
    return best
