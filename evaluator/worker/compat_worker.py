"""KernelBench's own way to judge: one process, known seeds, allclose, the mean of timings.

For comparison with published numbers alone. Whoever is judged shares this process with the
reference and the clock, so nothing that comes from here selects anything.

Source: KernelBench's evaluation as published (arXiv:2502.10517; `eval.py` and `timing.py`, version
    0.2, commit 423217d): seed 42 for models and timed inputs, five trials whose seeds are drawn
    under it, absolute and relative tolerance 1e-4 for float32 and 1e-2 for half precisions, the
    mean of 100 timings; on a GPU by its method `cuda_event`, see `cold_times_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.worker.failures import Failure, describe
from evaluator.worker.program import load_program
from evaluator.worker.serve import Handler

__all__ = ["ColdGpu", "CompatWorker", "cold_times_ms", "middle"]

SEED = 42
TRIALS = 5
WARM_UP, DISCARDED, TIMINGS = 3, 1, 100
BASELINE_WARM_UP = 5
"""Warm-up calls of a reference: `measure_ref_program_time` makes two more."""
FLUSH_SHAPE = (32, 1024, 1024)
"""Of int64: 256 MiB, more than the L2 cache of any GPU (`clear_l2_cache`)."""
TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_LARGEST_SEED = 2**32 - 1
_RIGHT_UNTIMED = "right in every trial, but it fails where it is timed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdGpu:
    """What timing with a cold cache does to a GPU.

    Attributes:
        wait: Waits for all its streams.
        release: Gives memory that the allocator keeps unused back to the device.
        overwrite: Has its L2 cache overwritten; does not wait for it.
        event: Returns a new event with `record()` and `elapsed_time(end)`, in ms.
    """

    wait: Callable[[], object]
    release: Callable[[], object]
    overwrite: Callable[[], object]
    event: Callable[[], Any]


def cold_times_ms(call: Callable[[], object], gpu: ColdGpu, warm_up: int = WARM_UP) -> list[float]:
    """Time calls one by one, each with nothing of its own in the L2 cache.

    Args:
        call: What to time.
        gpu: The GPU.
        warm_up: Calls before, each waited for.

    Returns:
        The times of `TIMINGS` calls, in ms. They see nothing of work on other streams than the
        current one.

    Source: `time_execution_with_cuda_event` of KernelBench's `timing.py`.
    """
    for _ in range(warm_up):
        call()
        gpu.wait()
    gpu.release()
    times = []
    for _ in range(DISCARDED + TIMINGS):
        gpu.wait()
        start, end = gpu.event(), gpu.event()
        gpu.overwrite()
        start.record()
        # An output lives until the next call has returned: two places take turns.
        _ = call()
        end.record()
        gpu.wait()
        times.append(float(start.elapsed_time(end)))
    return times[DISCARDED:]


class CompatWorker:
    """Serves the one op of a worker that judges as KernelBench does.

    Args:
        device: Where models and inputs are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.handlers: dict[str, Handler] = {"kernelbench": self._judge}

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        del request
        return describe(error, file="", status=Status.RUNTIME_ERROR, reason="problem_raised")

    def _judge(self, request: dict[str, Any]) -> dict[str, Any]:
        precision = request["precision"]
        names = ("Model", "get_inputs", "get_init_inputs")
        program = load_program(request["source"], "reference", "reference.py", names)
        # What fails here is the problem's own fault.
        passing = self._passing(program, precision)
        init = self._init(program, precision)
        reference = self._model(program["Model"], init, precision)
        timing = False
        try:
            module = load_program(request["candidate"], "candidate", "candidate.py", ("ModelNew",))
            candidate = self._model(module["ModelNew"], init, precision)
            wrong = self._wrong(program["get_inputs"], reference, candidate, precision)
            if wrong:
                return {"correct": False, "log": wrong, "proves_nothing": passing}
            timing = True
            # Upstream times candidates, unlike its baselines, with gradients on.
            with torch.set_grad_enabled(self._on_gpu):
                kernel_ms = self._time_ms(program["get_inputs"], candidate, precision, WARM_UP)
        except Exception as error:  # noqa: BLE001 - a candidate's code may raise anything
            status, file = Status.RUNTIME_ERROR, "candidate.py"
            failure = describe(error, file=file, status=status, reason="candidate_raised")
            log = f"{_RIGHT_UNTIMED}: {failure.log}" if timing else failure.log
            return {"correct": False, "log": log, "proves_nothing": passing}
        reference_ms = self._time_ms(program["get_inputs"], reference, precision, BASELINE_WARM_UP)
        times = {"kernel_ms": kernel_ms, "reference_ms": reference_ms}
        return {"correct": True, "log": "", "proves_nothing": passing, **times}

    def _passing(self, program: dict[str, Any], precision: str) -> str:
        """Name what these rules let pass that computes nothing; "" where they let nothing pass.

        The model is one of its own: the trials step the reference's state and a candidate's alike.
        """
        reference = self._model(program["Model"], self._init(program, precision), precision)
        first, second = (
            [
                value.clone()
                for value in _several(
                    reference(*self._inputs(program["get_inputs"], seed, precision))
                )
            ]
            for seed in (SEED + 1, SEED + 2)
        )
        tolerance = TOLERANCE[precision]
        nulls = {
            "zeros": [torch.zeros_like(value) for value in second],
            "a constant": [torch.full_like(value, middle(value)) for value in first],
            "an answer to other inputs": first,
        }
        for name, values in nulls.items():
            pairs = zip(values, second, strict=True)
            if all(torch.allclose(*pair, atol=tolerance, rtol=tolerance) for pair in pairs):
                return name
        return ""

    def _init(self, program: dict[str, Any], precision: str) -> list[object]:
        _seed(SEED)
        return self._moved(program["get_init_inputs"](), precision)

    def _model(self, kind: Any, init: Sequence[object], precision: str) -> Any:  # noqa: ANN401
        _seed(SEED)
        model = kind(*init)
        if isinstance(model, nn.Module):
            model = model.to(self._device, DTYPES[precision])
        return model

    def _inputs(self, get_inputs: Any, seed: int, precision: str) -> list[object]:  # noqa: ANN401
        _seed(seed)
        return self._moved(get_inputs(), precision)

    def _moved(self, values: Sequence[object], precision: str) -> list[object]:
        """Bring tensors to the device, floating-point ones in the precision.

        Upstream converts integers and booleans too, with which its own references of class or
        token ids raise.
        """
        return [
            value.to(self._device, DTYPES[precision] if value.is_floating_point() else value.dtype)
            if isinstance(value, torch.Tensor)
            else value
            for value in values
        ]

    def _wrong(self, get_inputs: Any, reference: Any, candidate: Any, precision: str) -> str:  # noqa: ANN401
        """Say why a candidate is wrong; "" where it is right in every trial."""
        torch.manual_seed(SEED)
        seeds = [int(torch.randint(0, _LARGEST_SEED, (1,))) for _ in range(TRIALS)]
        tolerance = TOLERANCE[precision]
        for number, seed in enumerate(seeds):
            values = self._inputs(get_inputs, seed, precision)
            _seed(seed)
            wanted = reference(*values)
            self._wait()
            got = candidate(*values)
            self._wait()
            pairs = zip(_several(wanted), _several(got), strict=True)
            for one, other in pairs:
                if one.shape != other.shape:
                    return f"trial {number}: shape {list(other.shape)}, not {list(one.shape)}"
                if not torch.allclose(one, other, atol=tolerance, rtol=tolerance):
                    largest = float((one - other).abs().max())
                    return f"trial {number}: the largest difference is {largest:.3g}"
        return ""

    def _time_ms(self, get_inputs: Any, model: Any, precision: str, warm_up: int) -> float:  # noqa: ANN401
        """Return the mean time of a call, in ms, on one set of inputs.

        On a GPU the cache is cold, and the mean has three digits, as `get_timing_stats` leaves it.
        """
        values = self._inputs(get_inputs, SEED, precision)
        self._wait()
        if self._on_gpu:
            times = cold_times_ms(lambda: model(*values), _cold_gpu(self._device), warm_up)
            return float(f"{fmean(times):.3g}")
        for _ in range(warm_up):
            model(*values)
        return fmean(_once_ms(model, values) for _ in range(TIMINGS))

    @property
    def _on_gpu(self) -> bool:
        return self._device.type == "cuda"

    def _wait(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize(self._device)


def _cold_gpu(device: torch.device) -> ColdGpu:
    return ColdGpu(
        wait=lambda: torch.cuda.synchronize(device),
        release=torch.cuda.empty_cache,
        overwrite=lambda: torch.empty(FLUSH_SHAPE, dtype=torch.int64, device=device).fill_(42),
        event=lambda: torch.cuda.Event(enable_timing=True),  # type: ignore[no-untyped-call]
    )


def _once_ms(model: Any, values: Sequence[object]) -> float:  # noqa: ANN401
    """Return the time of a call on a CPU, in ms."""
    start_s = perf_counter()
    model(*values)
    return 1000 * (perf_counter() - start_s)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


def middle(values: torch.Tensor) -> float:
    """Return the number that all values are closest to; 0 for what has none."""
    if not values.numel() or values.is_complex():
        return 0
    low, high = (float(end) for end in values.aminmax())
    return (low + high) / 2 if values.is_floating_point() else round((low + high) / 2)


def _several(outputs: object) -> Sequence[torch.Tensor]:
    return outputs if isinstance(outputs, tuple | list) else [outputs]  # type: ignore[list-item]
