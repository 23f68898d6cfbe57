"""Which part of an output is compared after a leg.

Covered: large outputs of which some region, an end included, is left out in timed calls.
"""

from __future__ import annotations

from collections.abc import Callable

from evaluator.referee.arrays import Array
from evaluator.referee.indices import Indices

__all__ = ["choose_part", "part_of"]

PART_ELEMENTS = 1 << 18
PART_SHARE = 4
"""Of a large output a quarter is compared, another one each time: whoever leaves out a hundredth
of the work while it is timed is found out in a few legs, and there are 10, or over 100."""


def choose_part(output: Array, choose: Callable[[int], int]) -> slice:
    """Choose the flat (row-major) positions that are compared; all of few, or of indices.

    Each end is among them one time in eight or more: with any start as likely as any other, as
    good as none would hold the first elements, or the last.

    Args:
        output: What is to be compared.
        choose: Returns a number from 0 to below its argument, which nobody can foresee.
    """
    size = min(output.numel, max(PART_ELEMENTS, output.numel // PART_SHARE))
    if size == output.numel or isinstance(output, Indices):
        return slice(0, output.numel)
    start = min(max(choose(output.numel) - size // 2, 0), output.numel - size)
    return slice(start, start + size)


def part_of(output: Array, part: slice) -> Array:
    """Return those positions of an output; itself where they are all."""
    size = part.stop - part.start
    return output if size == output.numel else output.part(part.start, size)
