"""Outliers among the elements of a set: single ones, and runs of neighbours.

Who looks at a sample of a set to learn of which distribution it is, and takes the short cut that is
right there, overlooks single elements; whole rows alone change functions of rows.
"""

from __future__ import annotations

from enum import Enum

import torch

__all__ = ["Runs", "add_outliers"]

_SINGLE = 4096
"""One element in so many is an outlier by itself."""
_RUNS = 4
_LEAST_SHARE, _MOST_SHARE = 14, 6
"""A run takes from 2^-14 to 2^-6 of the elements, even on a logarithmic scale, or none of few: no
sample is large enough to be sure, and the longest runs are in most parts that are compared."""


class Runs(Enum):
    """Which runs of neighbours a set has beside its single outliers.

    Attributes:
        NONE: None.
        SOME: Half of the sets have runs, of all sizes.
        LONGEST: Each set has runs of the largest size: what is permitted there must do for any.
    """

    NONE = "none"
    SOME = "some"
    LONGEST = "longest"


def add_outliers(
    values: torch.Tensor,
    factor: float,
    generator: torch.Generator,
    runs: Runs,
    host: torch.Generator | None = None,
) -> None:
    """Multiply some elements of a flat tensor by a factor, each of them once.

    Args:
        values: Flat; changed in place.
        factor: What outliers are multiplied by.
        generator: Source of the places, on the tensor's device.
        runs: Which runs there are.
        host: Source of where they are, for the interpreter to read; by default the same.
    """
    numel = len(values)
    host = host or generator
    places = torch.randint(
        numel, (-(-numel // _SINGLE),), generator=generator, device=generator.device
    )
    single = values[places] * factor
    section = numel // _RUNS
    coin, *drawn = torch.rand(1 + 2 * _RUNS, generator=host, device=host.device).tolist()
    # Who sees a run in a sample knows of the single ones, so half of the sets have none.
    with_runs = runs is Runs.LONGEST or (runs is Runs.SOME and coin < 0.5)
    lucks = zip(drawn[::2], drawn[1::2], strict=True) if with_runs else ()
    for number, (size_luck, place_luck) in enumerate(lucks):
        luck = 0.0 if runs is Runs.LONGEST else size_luck
        share = 2.0 ** -(_MOST_SHARE + luck * (_LEAST_SHARE - _MOST_SHARE))
        size = int(numel * share)
        start = number * section + int(place_luck * (section - size))
        values[start : start + size].mul_(factor)
    values[places] = single
