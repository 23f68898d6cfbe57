"""Which of the check's distributions the contents of timed calls may be of, too.

Covered: short cuts that are right near a problem's own distribution alone, and taken in timed calls
alone. Not covered: those of models that overflow on other numbers, or have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from evaluator.values import Permitted
from evaluator.wire import TIMED_VARIANTS
from evaluator.worker.opened import OpenedProblem
from evaluator.worker.outliers import Runs
from evaluator.worker.stock import Reservoir
from evaluator.worker.variants import vary_set, varying

__all__ = ["mixed_contents", "permitted_contents", "timed_runs"]


class Contents(Protocol):
    """Makes a set of a variant, for trial; None where the variant changes no input."""

    def __call__(self, variant: str, runs: Runs, *, louder: bool) -> Sequence[object] | None:
        """Make one as timed sets are, with numbers twice as large; else one of the check's."""
        ...


def timed_runs(permitted: Permitted) -> Runs:
    """Return which runs of outliers timed sets have."""
    return Runs.SOME if permitted.runs else Runs.NONE


def permitted_contents(opened: OpenedProblem, contents: Contents) -> Permitted:
    """Find out on which variants a model gives finite outputs alone.

    Where the reference overflows and a candidate does not, nothing could be said of the candidate.
    Timed sets are many, so louder ones must stay finite; of the check's, one has to.

    Args:
        opened: The problem; its model is called up to three times for each variant.
        contents: Makes a set of a variant.
    """
    variants = ["own"]
    overflowing = []
    runs = True
    for variant in TIMED_VARIANTS:
        if variant == "own":
            continue
        finite = _stays_finite(opened, contents(variant, Runs.LONGEST, louder=True))
        if variant == "spiked" and finite is False:
            runs = False
            finite = _stays_finite(opened, contents(variant, Runs.NONE, louder=True))
        elif finite is False:
            plain = _stays_finite(opened, contents(variant, Runs.LONGEST, louder=False))
            overflowing += [variant] if plain is False else []
        if finite:
            variants.append(variant)
    if overflowing and not opened.stays_finite(opened.sample(0)):
        overflowing = []
    return Permitted(variants=tuple(variants), runs=runs, overflowing=tuple(overflowing))


def mixed_contents(opened: OpenedProblem, reservoirs: Sequence[Reservoir], seed: int) -> Contents:
    """Return what mixes sets for `permitted_contents`.

    Args:
        opened: The problem.
        reservoirs: One for each of its inputs.
        seed: Of the sets.
    """
    generator = varying(seed, opened.device)

    def checked(variant: str, runs: Runs) -> Sequence[object] | None:
        """A set as the check has it."""
        longest = runs is Runs.LONGEST
        drawn = opened.sample(seed)
        values, changed = vary_set(drawn, opened.domains, variant, generator, runs=longest)
        return values if changed else None

    # Not into what was drawn: a problem may keep that.
    drawn = [
        torch.empty_like(value, memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
        for value in opened.sample(seed)
    ]

    def mixed(variant: str, runs: Runs, *, louder: bool) -> Sequence[object] | None:
        if not louder:
            return checked(variant, runs)
        if not any(one.varies(variant) for one in reservoirs):
            return None
        if any(one.stays_own(variant) for one in reservoirs):
            return None
        return [
            reservoir.mix(value, generator, variant, runs=runs, louder=True)
            for value, reservoir in zip(drawn, reservoirs, strict=True)
        ]

    return mixed


def _stays_finite(opened: OpenedProblem, values: Sequence[object] | None) -> bool | None:
    """Whether outputs are finite; None where the variant changes nothing."""
    return None if values is None else opened.stays_finite(values)
