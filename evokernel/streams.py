"""Random streams: one for each decision, from one root seed.

A stream depends on its place in the run alone, never on what was drawn elsewhere: results may
arrive in any order, and a resumed run draws what the interrupted one would have drawn.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from archives.attempt import Slot

__all__ = ["Streams"]


class _Use(IntEnum):
    CHOICE = 0
    PROPOSAL = 1
    MIGRATION = 2


class Streams:
    """The random streams of one problem.

    Source: `numpy.random.SeedSequence`, spawn keys (NumPy manual, "Parallel random number
    generation").
    """

    def __init__(self, rng_seed: int, problem_index: int) -> None:
        """Name the root.

        Args:
            rng_seed: Root seed of the run, >= 0.
            problem_index: Place of the problem in the run, from 0.
        """
        self._root = (rng_seed, problem_index)

    def choice(self, slot: Slot) -> np.random.Generator:
        """Return the stream that chooses the operator and the parents of a slot."""
        return self._stream(_Use.CHOICE, slot.generation, slot.island, slot.index)

    def proposal(self, slot: Slot) -> np.random.Generator:
        """Return the stream that an operator varies its parents with."""
        return self._stream(_Use.PROPOSAL, slot.generation, slot.island, slot.index)

    def migration(self, generation: int, island: int) -> np.random.Generator:
        """Return the stream that chooses what an island receives at a generation's end."""
        return self._stream(_Use.MIGRATION, generation, island)

    def _stream(self, *key: int) -> np.random.Generator:
        seed, problem = self._root
        sequence = np.random.SeedSequence(seed, spawn_key=(problem, *key))
        return np.random.Generator(np.random.PCG64(sequence))
