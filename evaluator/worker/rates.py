"""Measure what a device reaches: memory by reading, writing and copying, products by precision.

Of a CPU the multiply-adds that its cores do at all count too, where they are faster than products.

Each rate is the best of a few ways and repetitions, since it stands for what is possible: a
candidate is not to look better than the device because of a bad moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from archives.rates import Rates
from evaluator.worker.multiply_adds import multiply_add_tflops

__all__ = ["measure_rates"]

_BUFFER_BYTES = {"cuda": 4 << 30, "cpu": 1 << 27}
"""On a GPU so much that starting and ending a kernel is no part of the rate."""
_SHARE_OF_FREE = 0.1
"""Most of the free memory that one buffer takes."""
_SHAPES = {
    "cuda": ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 8192, 4096)),
    "cpu": ((1024, 1024, 1024), (512, 2048, 1024)),
}
"""Rows, summed edge and columns of products.

A smaller one can win, where power limits the clock of a larger. Of a long sum, less is spent on
starting and ending tiles: on one H200 TF32 reached 437 TFLOP/s so, and 417 in a square of as many
operations (problems 17 and 1 of tests/evaluator/h200_times.json).
"""
_LEAST_REPETITIONS = 5
_MOST_REPETITIONS = 60
_ENOUGH_MS = 60.0
"""Repetitions end when they took so long together."""

Clock = Callable[[Callable[[], object]], float]
"""Runs something and returns how long it took on the device, in ms."""


def measure_rates(device: torch.device, tell: Callable[[str], None]) -> Rates:
    """Measure a device that nothing else is using; under 3 s on a GPU.

    Args:
        device: A CUDA device, or the CPU with the threads that torch has.
        tell: Receives a sentence on what could not be measured and is done without.

    Raises:
        RuntimeError: The device fails, or has no memory left.
    """
    is_cuda = device.type == "cuda"
    clock = _device_clock if is_cuda else _wall_clock
    with torch.no_grad(), _tf32(False):
        read, write, copy = _memory_gbps(device, clock)
        fp32 = _product_tflops(device, clock, torch.float32)
        if not is_cuda:
            fp32 = max(fp32, _multiply_add_tflops(tell))
        fp16 = max(_product_tflops(device, clock, d) for d in _halves()) if is_cuda else None
        with _tf32(True):
            tf32 = _product_tflops(device, clock, torch.float32) if is_cuda else None
        launch_ms = _launch_ms(device, clock)
    return Rates(
        read_gbps=read,
        write_gbps=write,
        copy_gbps=copy,
        fp32=fp32,
        tf32=tf32,
        fp16=fp16,
        launch_ms=launch_ms,
    )


def _memory_gbps(device: torch.device, clock: Clock) -> tuple[float, float, float]:
    """Rates of reading, writing and copying."""
    count = _buffer_bytes(device) // 4
    source, target = (torch.rand(count, device=device) for _ in range(2))
    moved_mb = count * 4 / 1e6
    read = max(
        moved_mb / _best(clock, source.sum),
        2 * moved_mb / _best(clock, lambda: torch.dot(source, target)),
    )
    write = moved_mb / _best(clock, lambda: target.fill_(1.0))
    copies = (lambda: target.copy_(source), lambda: torch.neg(source, out=target))
    return read, write, max(2 * moved_mb / _best(clock, copy) for copy in copies)


def _buffer_bytes(device: torch.device) -> int:
    wanted = _BUFFER_BYTES[device.type]
    if device.type == "cuda":
        wanted = min(wanted, int(_SHARE_OF_FREE * torch.cuda.mem_get_info(device)[0]))
    return wanted // 4096 * 4096


def _product_tflops(device: torch.device, clock: Clock, dtype: torch.dtype) -> float:
    """Best rate of a product; the second operand plain and transposed."""
    best = 0.0
    for rows, inner, columns in _SHAPES[device.type]:
        left = torch.rand(rows, inner, device=device).to(dtype)
        right = torch.rand(inner, columns, device=device).to(dtype)
        out = torch.empty(rows, columns, device=device, dtype=dtype)
        for other in (right, right.t().contiguous().t()):
            ms = _best(clock, partial(torch.mm, left, other, out=out))
            best = max(best, 2 * rows * inner * columns / (ms * 1e9))
    return best


def _multiply_add_tflops(tell: Callable[[str], None]) -> float:
    """Rate of a CPU's multiply-adds; 0 where they cannot be built, which is told."""
    try:
        return multiply_add_tflops(torch.get_num_threads())
    except RuntimeError as error:
        tell(f"{error}; torch's products alone say what this CPU does")
        return 0.0


def _halves() -> list[torch.dtype]:
    """The 16-bit types that the device multiplies by itself: V100 and T4 have no bfloat16."""
    has_bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
    return [torch.float16, torch.bfloat16] if has_bfloat16 else [torch.float16]


def _launch_ms(device: torch.device, clock: Clock) -> float:
    """Shortest time around one tiny kernel, its launch prepared while the device is busy."""
    tiny = torch.zeros(1, device=device)
    busy = torch.empty(_BUFFER_BYTES[device.type] // 64, dtype=torch.uint8, device=device)

    def launch() -> float:
        for _ in range(8):
            busy.fill_(1)
        return clock(lambda: tiny.add_(1.0))

    return min(launch() for _ in range(_MOST_REPETITIONS))


def _best(clock: Clock, action: Callable[[], object]) -> float:
    """Shortest of several times, in ms, after a run that only warms up."""
    clock(action)
    times: list[float] = []
    while len(times) < _LEAST_REPETITIONS or (
        len(times) < _MOST_REPETITIONS and sum(times) < _ENOUGH_MS
    ):
        times.append(clock(action))
    return min(times)


def _device_clock(action: Callable[[], object]) -> float:
    # torch leaves its events untyped.
    start: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    end: torch.cuda.Event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def _wall_clock(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1e3


@contextmanager
def _tf32(permitted: bool) -> Iterator[None]:
    """Permit or forbid TF32 products for a while."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = permitted
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
