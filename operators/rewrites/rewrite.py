"""What a rewrite is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from operators.rewrites.source import Kernel, Module

__all__ = ["Rewrite", "Rewritten", "pick", "shuffled"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a rewrite made.

    Attributes:
        source: The new text.
        note: What was changed, for people.
    """

    source: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """One structural edit.

    Attributes:
        name: Its name.
        apply: Edits a module at a place that it draws; None where there is no place for it.
    """

    name: str
    apply: Callable[[Module, np.random.Generator], Rewritten | None]


def pick(choices: Sequence[_T], rng: np.random.Generator) -> _T:
    """Draw one of some choices; there is one at least."""
    return choices[int(rng.integers(len(choices)))]


def shuffled(kernels: Sequence[Kernel], rng: np.random.Generator) -> list[Kernel]:
    """Return kernels in a random order."""
    return [kernels[int(index)] for index in rng.permutation(len(kernels))]
