"""How much what a candidate returns differs from call to call, on the same inputs.

Sums by atomics come in whatever order, so their last bits differ; a race may make more of it. The
referee judges each output by its error alone; this fact tells users what else to expect.

Covered: honest programs; a sample of each output. Not covered: a program that lies about itself in
its own process; no verdict rests on this.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from archives.evaluation import Mismatch

__all__ = ["measure_spread"]

CALLS = 2
SAMPLE = 1 << 18
"""Elements of an output that are looked at, at equal distances: memory stays free for the calls."""


def measure_spread(call: Callable[[], object]) -> float | Mismatch | None:
    """Return how much calls differ, relative to the output's root mean square.

    Args:
        call: Calls a model on inputs that stay the same, its state put back before.

    Returns:
        The largest difference of an element between the first call and another one; 0: no bit
        differs; what `Mismatch` says; None: a call failed.
    """
    try:
        return _measured(call)
    except Exception:  # noqa: BLE001 - the candidate's code: what else is known of it stands
        return None


def _measured(call: Callable[[], object]) -> float | Mismatch:
    first = _samples(call())
    worst = 0.0
    for _ in range(CALLS - 1):
        again = _samples(call())
        if [one.shape for one in again] != [one.shape for one in first]:
            return Mismatch.SHAPES
        for one, other in zip(first, again, strict=True):
            worst = max(worst, _difference(one, other))
    return worst if math.isfinite(worst) else Mismatch.NUMBERS


def _samples(returned: object) -> list[torch.Tensor]:
    items = returned if isinstance(returned, tuple | list) else (returned,)
    tensors = [item.detach() for item in items if isinstance(item, torch.Tensor) and item.numel()]
    return [_sample(tensor) for tensor in tensors]


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Copy elements at equal distances; of a tensor that is not in a row, of its first rows."""
    step = -(-tensor.numel() // SAMPLE)
    if step > 1 and not tensor.is_contiguous():
        tensor = tensor[: max(1, len(tensor) // step)]
        step = -(-tensor.numel() // SAMPLE)
    return tensor.reshape(-1)[::step].clone()


def _difference(one: torch.Tensor, other: torch.Tensor) -> float:
    wide, narrow = one.double(), other.double()
    if not bool((wide.isfinite() == narrow.isfinite()).all()):
        return math.inf
    apart = torch.where(wide.isfinite(), (wide - narrow).abs(), 0.0).max()
    size = torch.where(wide.isfinite(), wide, 0.0).square().mean().sqrt()
    if not apart:
        return 0.0
    # Where the first call returned zeros alone, the other one's size is what there is.
    size = size or torch.where(wide.isfinite(), narrow, 0.0).square().mean().sqrt()
    return float(apart / size)
