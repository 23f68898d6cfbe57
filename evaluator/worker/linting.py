"""What a problem says about a kernel, found by running it: too little, and it is degenerate.

Covered: outputs that never change, are zero or are rounding errors; inputs and weights that change
nothing; calls that cost little more than being called. Outputs that are merely small, or hardly
change, are a remark: what computes nothing passes KernelBench's fixed tolerance there.
Not covered: what shows on a distribution other than the problem's own, and whether the referee's
bound, which follows the outputs, lets it pass too; its null gate looks at both. A GPU's calls: the
report has their measured times.

Source: the filters of robust-kbench and the tasks that KernelBench's readers had to take out:
    outputs that are constant or nearly zero, or that do not depend on an input or on the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch

from evaluator.worker.compat_worker import TOLERANCE, middle
from evaluator.worker.opened import OpenedProblem, open_problem

__all__ = ["look_at"]

SAME = 1e-6
"""Outputs that differ by less, relative to their RMS, are the same."""
CONSTANT = 1e-4
"""Outputs of two draws that differ by less, relative to their RMS, say that drawing is for show."""
LEAST_CALL_US = 20.0
"""What calling a model on a CPU costs at least: shorter ones measure little else."""
ROUNDING = 0.1
"""Outputs whose exact RMS is a smaller share of theirs are rounding errors; exact ones vanish."""
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
    seed, tolerance = int(request["seed"]), TOLERANCE[request["precision"]]
    opened, _ = open_problem(request)
    # The weights are drawn under the seed itself: uniform inputs would be the very same numbers.
    first, second = opened.sample(seed + 1), opened.sample(seed + 2)
    outputs, others = _outputs(opened, first), _outputs(opened, second)
    flaws, remarks = _flaws_of_outputs(outputs, others), []
    if not flaws:
        flaws += _rounding_errors(opened, first, outputs, tolerance)
        remarks += [] if flaws else _remarks(outputs, others, tolerance)
        flaws += _ignored_inputs(opened, first, second, outputs)
        flaws += _ignored_weights(opened, first, outputs, seed + 3)
    took_us = _call_us(opened, first)
    if took_us < LEAST_CALL_US:
        flaws.append(f"a call takes {took_us:.0f} us, hardly more than calling takes")
    return flaws, remarks


def _remarks(
    outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor], tolerance: float
) -> list[str]:
    """Say what passes KernelBench's tolerance on the second draw though it computes nothing."""
    for passes, because, here, nulls in _nulls(outputs, others):
        pairs = list(zip(nulls, others, strict=True))
        if not all(_close(*pair, tolerance) for pair in pairs):
            continue
        furthest = max(_distance(*pair) for pair in pairs)
        scale = max(_distance(torch.zeros_like(value), value) for value in others)
        # The tolerance is relative, too: of large outputs it is large.
        of = f" of {scale:.2g}" if furthest > tolerance and scale > furthest else ""
        return [
            f"by KernelBench's tolerance of {tolerance:.0e} {passes}, as no output {because} "
            f"{furthest:.2g}{of}; {here}"
        ]
    return []


def _nulls(
    first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]
) -> Iterator[tuple[str, str, str, Sequence[torch.Tensor]]]:
    """Yield the three of `CompatWorker`: that it passes, because, what holds here, its outputs."""
    measured = "whether it passes the bound here is measured when a search begins"
    zeros = [torch.zeros_like(value) for value in second]
    yield "zeros pass", "exceeds", "by the bound here they do not", zeros
    constants = [torch.full_like(value, middle(value)) for value in first]
    yield "a constant passes", "is further from it than", measured, constants
    yield "the answer to other inputs passes", "changes by more than", measured, first


def _close(one: torch.Tensor, other: torch.Tensor, tolerance: float) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=tolerance, atol=tolerance)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    if not one.numel():
        return 0.0
    wide = torch.complex128 if one.is_complex() else torch.float64
    return float((one.to(wide) - other.to(wide)).abs().nan_to_num(nan=0.0).max())


def _flaws_of_outputs(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> list[str]:
    if not any(_largest(output) for output in outputs):
        return ["all outputs are zero"]
    if all(_alike(*pair, CONSTANT) for pair in zip(outputs, others, strict=True)):
        return ["the output is the same whatever is drawn"]
    return []


def _rounding_errors(
    opened: OpenedProblem,
    first: Sequence[object],
    outputs: Sequence[torch.Tensor],
    tolerance: float,
) -> list[str]:
    """Tell small outputs, which the bound follows, from zeros that rounding hides."""
    if max(_largest(output) for output in outputs) > tolerance:
        return []
    exact = opened.in_float64(first)
    if exact is None:
        return []
    pairs = zip(_tensors(exact), outputs, strict=True)
    if all(_rms(sure) < ROUNDING * _rms(output) for sure, output in pairs):
        return ["all outputs are rounding errors: in float64 they vanish"]
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
    # An output may be a view of an input, or a buffer that the next call writes to.
    return [item.clone() for item in _tensors(opened.forward(values))]


def _tensors(returned: object) -> list[torch.Tensor]:
    items = returned if isinstance(returned, tuple | list) else (returned,)
    return [item for item in items if isinstance(item, torch.Tensor)]


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
