"""Likeness: how near two problems are, so that what is good for one may be good for the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

from problems.graph import OperatorGraph, TensorSpec

__all__ = ["Form", "distance"]

_OTHER_FORM = 4.0
"""Distance of inputs that differ in number or in dimensions."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a problem computes, as far as its likeness to others goes.

    Attributes:
        operations: Names of its operations, each once, sorted.
        sizes: Binary logarithms of the sizes of all inputs and weights, in their order.
    """

    operations: tuple[str, ...]
    sizes: tuple[float, ...]

    @classmethod
    def of(cls, graph: OperatorGraph) -> Form:
        """Return the form of a graph."""
        specs = [spec for spec in graph.inputs if isinstance(spec, TensorSpec)]
        sizes = [size for spec in (*specs, *graph.parameters.values()) for size in spec.shape]
        return cls(
            operations=tuple(sorted({node.op for node in graph.nodes})),
            sizes=tuple(math.log2(max(1, size)) for size in sizes),
        )


def distance(one: Form | None, other: Form | None) -> float:
    """Return how unlike two problems are, from 0: in what they do and in their sizes.

    The share of operations that only one of them has, times 2, and the mean difference of the
    logarithms of their sizes, dimension by dimension. Infinite where a form is not known.
    """
    if one is None or other is None:
        return math.inf
    operations, others = set(one.operations), set(other.operations)
    either = operations | others
    unlike = 2.0 * (1 - len(operations & others) / len(either)) if either else 0.0
    if len(one.sizes) != len(other.sizes):
        return unlike + _OTHER_FORM + abs(sum(one.sizes) - sum(other.sizes))
    apart = [abs(a - b) for a, b in zip(one.sizes, other.sizes, strict=True)]
    return unlike + (sum(apart) / len(apart) if apart else 0.0)
