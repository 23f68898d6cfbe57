"""KernelBench's own way to judge: one process, known seeds, allclose, the mean of timings.

For comparison with published numbers alone. Whoever is judged shares this process with the
reference and the clock, so nothing that comes from here selects anything.

Source: KernelBench's evaluation as published (arXiv:2502.10517; `eval.py`, version 0.2): seed 42
    for models and timed inputs, five trials whose seeds are drawn under it, absolute and relative
    tolerance 1e-4 for float32 and 1e-2 for half precisions, three warm-up calls, the mean of 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from time import perf_counter
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.worker.failures import Failure, describe
from evaluator.worker.program import load_program
from evaluator.worker.serve import Handler

__all__ = ["CompatWorker"]

SEED = 42
TRIALS = 5
WARM_UP, TIMINGS = 3, 100
TOLERANCE = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 1e-2}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_LARGEST_SEED = 2**32 - 1


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
        _seed(SEED)
        init = program["get_init_inputs"]()
        reference = self._model(program["Model"], init, precision)
        # What fails here is the problem's own fault.
        passing = self._passing(program["get_inputs"], reference, precision)
        try:
            module = load_program(request["candidate"], "candidate", "candidate.py", ("ModelNew",))
            candidate = self._model(module["ModelNew"], init, precision)
            wrong = self._wrong(program["get_inputs"], reference, candidate, precision)
            if wrong:
                return {"correct": False, "log": wrong, "proves_nothing": passing}
            kernel_ms = self._time_ms(program["get_inputs"], candidate, precision)
        except Exception as error:  # noqa: BLE001 - a candidate's code may raise anything
            status, file = Status.RUNTIME_ERROR, "candidate.py"
            failure = describe(error, file=file, status=status, reason="candidate_raised")
            return {"correct": False, "log": failure.log, "proves_nothing": passing}
        reference_ms = self._time_ms(program["get_inputs"], reference, precision)
        times = {"kernel_ms": kernel_ms, "reference_ms": reference_ms}
        return {"correct": True, "log": "", "proves_nothing": passing, **times}

    def _passing(self, get_inputs: Any, reference: Any, precision: str) -> str:  # noqa: ANN401
        """Name what these rules let pass that computes nothing; "" where they let nothing pass."""
        first, second = (
            [
                value.clone()
                for value in _several(reference(*self._inputs(get_inputs, seed, precision)))
            ]
            for seed in (SEED, SEED + 1)
        )
        tolerance = TOLERANCE[precision]
        nulls = {
            "zeros": [torch.zeros_like(value) for value in second],
            "a constant": [torch.full_like(value, _middle(value)) for value in first],
            "an answer to other inputs": first,
        }
        for name, values in nulls.items():
            pairs = zip(values, second, strict=True)
            if all(torch.allclose(*pair, atol=tolerance, rtol=tolerance) for pair in pairs):
                return name
        return ""

    def _model(self, kind: Any, init: Sequence[object], precision: str) -> Any:  # noqa: ANN401
        _seed(SEED)
        model = kind(*init)
        if isinstance(model, nn.Module):
            model = model.to(self._device, DTYPES[precision])
        return model

    def _inputs(self, get_inputs: Any, seed: int, precision: str) -> list[object]:  # noqa: ANN401
        _seed(seed)
        return [
            value.to(self._device, DTYPES[precision] if value.is_floating_point() else value.dtype)
            if isinstance(value, torch.Tensor)
            else value
            for value in get_inputs()
        ]

    def _wrong(self, get_inputs: Any, reference: Any, candidate: Any, precision: str) -> str:  # noqa: ANN401
        """Say why a candidate is wrong; "" where it is right in every trial."""
        torch.manual_seed(SEED)
        seeds = [int(torch.randint(0, _LARGEST_SEED, (1,))) for _ in range(TRIALS)]
        tolerance = TOLERANCE[precision]
        for number, seed in enumerate(seeds):
            values = self._inputs(get_inputs, seed, precision)
            wanted, got = reference(*values), candidate(*values)
            self._wait()
            pairs = zip(_several(wanted), _several(got), strict=True)
            for one, other in pairs:
                if one.shape != other.shape:
                    return f"trial {number}: shape {list(other.shape)}, not {list(one.shape)}"
                if not torch.allclose(one, other, atol=tolerance, rtol=tolerance):
                    largest = float((one - other).abs().max())
                    return f"trial {number}: the largest difference is {largest:.3g}"
        return ""

    def _time_ms(self, get_inputs: Any, model: Any, precision: str) -> float:  # noqa: ANN401
        """Return the mean time of a call, in ms, on one set of inputs."""
        values = self._inputs(get_inputs, SEED, precision)
        for _ in range(WARM_UP):
            model(*values)
        self._wait()
        return fmean(self._once_ms(model, values) for _ in range(TIMINGS))

    def _once_ms(self, model: Any, values: Sequence[object]) -> float:  # noqa: ANN401
        if self._device.type != "cuda":
            start_s = perf_counter()
            model(*values)
            return 1000 * (perf_counter() - start_s)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        model(*values)
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


def _middle(values: torch.Tensor) -> float | int:
    """The number that all values are closest to; 0 for what has none."""
    if not values.numel() or values.is_complex():
        return 0
    low, high = (float(end) for end in values.aminmax())
    middle = (low + high) / 2
    return middle if values.is_floating_point() else round(middle)


def _several(outputs: object) -> Sequence[torch.Tensor]:
    return outputs if isinstance(outputs, tuple | list) else [outputs]  # type: ignore[list-item]
