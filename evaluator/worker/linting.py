"""What a problem says about a kernel, found by running it: too little, and it is degenerate.

Covered: outputs that never change or are zero, inputs and weights that change nothing, calls that
cost little more than being called. Outputs that are merely small are a remark: zeros pass
KernelBench's fixed tolerance there, but not the referee's bound, which follows the outputs.
Not covered: what shows on a distribution other than the problem's own; the referee's null gate
looks at those.

Source: the filters of robust-kbench and the tasks that KernelBench's readers had to take out:
    outputs that are constant or nearly zero, or that do not depend on an input or on the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch

from evaluator.worker.compat_worker import TOLERANCE
from evaluator.worker.opened import OpenedProblem, open_problem

__all__ = ["look_at"]

SAME = 1e-6
"""Outputs that differ by less, relative to their RMS, are the same."""
CONSTANT = 1e-4
"""Outputs of two draws that differ by less, relative to their RMS, say that drawing is for show."""
LEAST_CALL_US = 20.0
"""What calling a model costs at least: shorter ones measure little else."""
CALLS = 20


def look_at(request: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return why a problem says little about a kernel, and what else is worth a remark.

    Args:
        request: The fields of the wire's op "lint": source, precision, seed.

    Returns:
        Flaws, one clause each, empty where it is sound; remarks, one clause each.

    Raises:
        Failure: The module is not of KernelBench's form.
        Exception: Whatever the module raises.
    """
    seed = int(request["seed"])
    opened, _ = open_problem(request)
    first, second = opened.sample(seed), opened.sample(seed + 1)
    outputs = _outputs(opened, first)
    others = _outputs(opened, second)
    flaws = _flaws_of_outputs(outputs, others)
    if not flaws:
        flaws += _ignored_inputs(opened, first, second, outputs)
        flaws += _ignored_weights(opened, first, outputs, seed)
    took_us = _call_us(opened, first)
    if took_us < LEAST_CALL_US:
        flaws.append(f"a call takes {took_us:.0f} us, hardly more than calling takes")
    return flaws, _remarks(outputs, TOLERANCE[request["precision"]])


def _remarks(outputs: Sequence[torch.Tensor], tolerance: float) -> list[str]:
    largest = max((_largest(output) for output in outputs), default=0.0)
    if not 0 < largest <= tolerance:
        return []
    return [
        f"by KernelBench's tolerance of {tolerance:.0e} zeros pass, as no output exceeds "
        f"{largest:.2g}; by the bound here they do not"
    ]


def _flaws_of_outputs(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[str]:
    if not any(_largest(output) for output in outputs):
        return ["all outputs are zero"]
    if all(_alike(*pair, CONSTANT) for pair in zip(outputs, others, strict=True)):
        return ["the output is the same whatever is drawn"]
    return []


def _ignored_inputs(
    opened: OpenedProblem,
    first: Sequence[object],
    second: Sequence[object],
    outputs: Sequence[torch.Tensor],
) -> list[str]:
    flaws = []
    for number, other in enumerate(second):
        if not isinstance(other, torch.Tensor) or other.equal(first[number]):  # type: ignore[arg-type]
            continue
        changed = [*first[:number], other, *first[number + 1 :]]
        if _all_alike(_outputs(opened, changed), outputs):
            flaws.append(f"input {number} changes nothing")
    return flaws


def _ignored_weights(
    opened: OpenedProblem, first: Sequence[object], outputs: Sequence[torch.Tensor], seed: int
) -> list[str]:
    if not opened.constructed:
        return []
    opened.set_weights(seed)
    same = _all_alike(_outputs(opened, first), outputs)
    opened.set_weights(None)
    return ["the weights change nothing"] if same else []


def _outputs(opened: OpenedProblem, values: Sequence[object]) -> list[torch.Tensor]:
    returned = opened.forward(values)
    items = returned if isinstance(returned, tuple | list) else (returned,)
    # An output may be a view of an input, or a buffer that the next call writes to.
    return [item.clone() for item in items if isinstance(item, torch.Tensor)]


def _all_alike(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> bool:
    return all(_alike(*pair, SAME) for pair in zip(outputs, others, strict=True))


def _alike(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return one.equal(other)
    return torch.allclose(
        one.double(), other.double(), rtol=0, atol=tolerance * _rms(other), equal_nan=True
    )


def _rms(values: torch.Tensor) -> float:
    finite = values.double()[values.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _largest(values: torch.Tensor) -> float:
    if not values.numel() or not values.is_floating_point():
        return float("inf")
    return float(values.double().abs().max().nan_to_num(nan=float("inf")))


def _call_us(opened: OpenedProblem, values: Sequence[object]) -> float:
    times = []
    for _ in range(CALLS):
        start = perf_counter()
        opened.forward(values)
        times.append(1e6 * (perf_counter() - start))
        if times[-1] > 1000 * LEAST_CALL_US:
            break
    return median(times)
