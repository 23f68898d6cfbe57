"""Which of the check's distributions the contents of timed calls may be of, too.

Covered: short cuts that are right near a problem's own distribution alone, and taken in timed calls
alone. Not covered: those of models that overflow on other numbers, or have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from evaluator.values import Permitted
from evaluator.wire import TIMED_VARIANTS
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.outliers import Runs
from evaluator.worker.stock import Reservoir
from evaluator.worker.variants import varying

__all__ = ["mixed_contents", "permitted_contents", "timed_runs"]

Contents = Callable[[str, Runs], Sequence[object] | None]


def timed_runs(permitted: Permitted) -> Runs:
    """Return which runs of outliers timed sets have."""
    return Runs.SOME if permitted.runs else Runs.NONE


def permitted_contents(opened: OpenedProblem, louder: Contents) -> Permitted:
    """Find out on which variants a model gives finite outputs alone.

    Where the reference overflows and a candidate does not, nothing could be said of the candidate.

    Args:
        opened: The problem; its model is called once or twice for each variant.
        louder: Makes a set of a variant, with numbers twice as large as they will be: then none of
            the many sets that follow overflows. None where the variant changes no input.
    """
    variants = ["own"]
    runs = True
    for variant in TIMED_VARIANTS:
        if variant == "own":
            continue
        finite = _stays_finite(opened, louder, variant, Runs.LONGEST)
        if variant == "spiked" and finite is False:
            runs = False
            finite = _stays_finite(opened, louder, variant, Runs.NONE)
        if finite:
            variants.append(variant)
    return Permitted(variants=tuple(variants), runs=runs)


def mixed_contents(opened: OpenedProblem, reservoirs: Sequence[Reservoir], seed: int) -> Contents:
    """Return what mixes sets twice as loud, for `permitted_contents`.

    Args:
        opened: The problem.
        reservoirs: One for each of its inputs.
        seed: Of the sets.
    """
    generator = varying(seed, opened.device)
    # Not into what was drawn: a problem may keep that.
    drawn = [
        torch.empty_like(value, memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
        for value in opened.sample(seed)
    ]

    def louder(variant: str, runs: Runs) -> Sequence[object] | None:
        if not any(one.varies(variant) for one in reservoirs):
            return None
        if any(one.stays_own(variant) for one in reservoirs):
            return None
        return [
            reservoir.mix(value, generator, variant, runs=runs, louder=True)
            for value, reservoir in zip(drawn, reservoirs, strict=True)
        ]

    return louder


def _stays_finite(opened: OpenedProblem, louder: Contents, variant: str, runs: Runs) -> bool | None:
    """Whether outputs are finite; None where the variant changes nothing. Frees the set."""
    values = louder(variant, runs)
    return None if values is None else opened.stays_finite(values)
