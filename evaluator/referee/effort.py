"""How much is measured, for a search and for a verification."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluator.referee.timing import Ratio

__all__ = [
    "HOPELESS_SPEEDUP",
    "LONG_VERIFY_EFFORT",
    "SEARCH_EFFORT",
    "VERIFY_EFFORT",
    "VERIFY_PROCESSES",
    "Effort",
]

HOPELESS_SPEEDUP = 0.7
"""A candidate that is slower than this in every block needs no precise time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured.

    Attributes:
        blocks: ABBA blocks in one round.
        rounds: Rounds at most: another follows where the first leaves too much in doubt.
        hopeless_blocks: Blocks after which a candidate is left alone that is much slower than the
            reference in each of them.
        enough_width: Upper over lower bound of the interval up to which no further round follows.
        max_width: The same beyond which there is no verdict.
        sealed_pairs: Sealed legs of each side, on a GPU, that confirm the ratio of short calls.
        single_rounds: Rounds of legs of one call, on a CPU, on whose mean a claim has to show; with
            none, the first rounds that agree with it are enough.
    """

    blocks: int
    rounds: int
    hopeless_blocks: int
    enough_width: float
    max_width: float
    sealed_pairs: int = 0
    single_rounds: int = 0

    def is_enough(self, ratio: Ratio, rounds_left: int) -> bool:
        """Tell whether blocks say enough.

        Args:
            ratio: What they say.
            rounds_left: How many may follow.
        """
        is_final = not rounds_left or ratio.speedup < HOPELESS_SPEEDUP
        return ratio.width <= (self.max_width if is_final else self.enough_width)


SEARCH_EFFORT = Effort(blocks=5, rounds=2, hopeless_blocks=3, enough_width=1.6, max_width=1.6)
VERIFY_EFFORT = Effort(
    blocks=20,
    rounds=2,
    hopeless_blocks=5,
    enough_width=1.25,
    max_width=1.25,
    sealed_pairs=12,
    single_rounds=12,
)
VERIFY_PROCESSES = 3
LONG_VERIFY_EFFORT = replace(VERIFY_EFFORT, blocks=8, rounds=4, enough_width=1.02)
"""Where each call moves gigabytes, legs scatter by a few parts in a thousand: the interval of 24
blocks is as narrow as it has to be, and what is drawn, written and compared for each leg takes
several times as long as the leg. Where the device changes its clock all the time, for want of
power, they scatter by two in a hundred, and need up to four times as many."""
