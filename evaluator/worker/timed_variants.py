"""Which of the check's distributions the contents of timed calls may be of, too.

Covered: short cuts that are right near a problem's own distribution alone, and taken in timed calls
alone. Not covered: those of models that overflow on other numbers, or have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.wire import TIMED_VARIANTS
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.stock import Reservoir

__all__ = ["permitted_variants"]


def permitted_variants(
    opened: OpenedProblem, reservoirs: Sequence[Reservoir], seed: int
) -> tuple[str, ...]:
    """Return those of `TIMED_VARIANTS` on which a model gives finite outputs alone.

    Where the reference overflows and a candidate does not, nothing could be said of the candidate.
    It is tried with numbers twice as large: then none of the many sets that follow overflows.

    Args:
        opened: The problem; its model is called once for each.
        reservoirs: One for each of its inputs.
        seed: Of the sets that are tried.
    """
    generator = torch.Generator(opened.device).manual_seed(seed ^ 1)
    # Not into what was drawn: a problem may keep that.
    drawn = [
        torch.empty_like(value, memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
        for value in opened.sample(seed)
    ]
    permitted = []
    for variant in TIMED_VARIANTS:
        if variant == "own":
            permitted.append(variant)
            continue
        if not any(one.varies(variant) for one in reservoirs):
            continue
        if any(one.stays_own(variant) for one in reservoirs):
            continue
        values = [
            reservoir.mix(value, generator, variant, louder=True)
            for value, reservoir in zip(drawn, reservoirs, strict=True)
        ]
        if opened.stays_finite(values):
            permitted.append(variant)
    return tuple(permitted)
