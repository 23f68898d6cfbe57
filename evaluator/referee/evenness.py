"""Which distributions a reference takes as long on as on its problem's own inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evaluator.referee.inputs import COMMON_VARIANTS

__all__ = ["even_variants"]

FACTOR = 1.1
TRIES = 3
"""Pairs of legs by one of which a distribution is found to take as long as the own one: others may
have been disturbed."""


def even_variants(variants: Sequence[str], leg_ms: Callable[[str], float]) -> tuple[str, ...]:
    """Return the distributions on which the reference takes as long as on its own, to a tenth.

    Where it takes longer, such as an exponential of negative numbers where its own are positive,
    legs would differ by the luck of their sets, and the number would not be that of the problem's
    own inputs. The one with outliers stays in any case: it is the own one but for a few elements,
    and without it who looks at a sample would know what a set is.

    Args:
        variants: Those that timed sets may be of.
        leg_ms: Times a leg of the reference on sets of one distribution, in ms.
    """

    def is_even(variant: str) -> bool:
        pairs = ((leg_ms(variant), leg_ms("own")) for _ in range(TRIES))
        return any(one < FACTOR * own and own < FACTOR * one for one, own in pairs)

    return tuple(one for one in variants if one in COMMON_VARIANTS or is_even(one))
