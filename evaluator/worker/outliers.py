"""Outliers among the contents of timed calls, as large as those of the check.

Covered: short cuts that are right near a problem's own distribution alone, and taken in timed calls
alone. Not covered: those of models that overflow on such outliers, which meet none; few sets of an
input of few elements have one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.worker.opened import OpenedProblem
from evaluator.worker.stock import Reservoir

__all__ = ["settle_outliers"]


def settle_outliers(opened: OpenedProblem, reservoirs: Sequence[Reservoir], seed: int) -> None:
    """Give timed contents outliers, unless the model may overflow on them.

    Where the reference overflows and a candidate does not, nothing could be said of the candidate.
    It is tried with outliers twice as large: then none of the many sets that follow overflows.

    Args:
        opened: The problem; its model is called once.
        reservoirs: One for each of its inputs.
        seed: Of the set that is tried.
    """
    for reservoir in reservoirs:
        reservoir.set_outliers(2.0, always=True)
    generator = torch.Generator(opened.device).manual_seed(seed)
    # Not into what was drawn: a problem may keep that.
    drawn = [
        torch.empty_like(value, memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
        for value in opened.sample(seed)
    ]
    values = [
        reservoir.mix(value, generator) for value, reservoir in zip(drawn, reservoirs, strict=True)
    ]
    times = 1.0 if opened.stays_finite(values) else 0.0
    for reservoir in reservoirs:
        reservoir.set_outliers(times)
