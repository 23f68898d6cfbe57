"""Outputs that are indices: where two values tie, each of their indices is right.

That can be told only where the values pointed at are at hand, which they are where an output is
argmax or argmin of an input itself. Any other index must be equal to the reference's: it may
point at values that were rounded on the way, and alone it does not tell a tie from a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evaluator.referee.arrays import Array
from problems.graph import Node, OperatorGraph

__all__ = ["Indices", "Pointer", "pointers"]

_WHOLE = {"aten.argmax.default", "aten.argmin.default"}
_SECOND = {"aten.max.dim", "aten.min.dim"}
"""Operations whose second output is the index of the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """Where the indices of an output point: along one dimension of an input."""

    input_number: int
    dimension: int


def pointers(graph: OperatorGraph) -> dict[int, Pointer]:
    """Return, by number, the outputs whose indices point into an input.

    None does where an operation works in place: an input may not be what it was.

    Args:
        graph: The traced reference.
    """
    if any(node.op.split(".")[1].endswith("_") for node in graph.nodes if "." in node.op):
        return {}
    found = {}
    for number, name in enumerate(graph.outputs):
        kind, _, output = name.partition(".")
        if not kind.startswith("node"):
            continue
        node = graph.nodes[int(kind.removeprefix("node"))]
        if node.op in (_SECOND if output == "1" else _WHOLE):
            pointer = _pointer(node)
            if pointer is not None:
                found[number] = pointer
    return found


def _pointer(node: Node) -> Pointer | None:
    source = node.inputs[0]
    dimension = node.arguments[1] if len(node.arguments) > 1 else None
    if not source.startswith("input") or type(dimension) is not int:
        return None
    return Pointer(input_number=int(source.removeprefix("input")), dimension=dimension)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indices(Array):
    """Expected indices, with the values that they point at.

    Attributes:
        source: The tensor pointed into.
        dimension: Along which of its dimensions.
    """

    source: Array
    dimension: int

    @classmethod
    def of_output(cls, output: Array, source: Array, dimension: int) -> Indices:
        """Let an output know what it points at."""
        return cls(values=output.values, dtype=output.dtype, source=source, dimension=dimension)

    def kept(self) -> Indices:
        """Return the same with a copy of the values, for when their memory is used again."""
        return replace(self, source=replace(self.source, values=np.array(self.source.values)))

    def tied(self, at: NDArray[np.intp], got: NDArray[np.generic]) -> NDArray[np.bool_]:
        """Tell which indices point at the same value as those expected.

        Args:
            at: Flat positions in this output, shape [n].
            got: What stands there instead, integers, shape [n].
        """
        lines = np.moveaxis(self.source.values, self.dimension, -1)
        length = lines.shape[-1]
        chosen = got.astype(np.int64)
        inside = (chosen >= 0) & (chosen < length)
        places = np.unravel_index(at, lines.shape[:-1])
        wanted = lines[(*places, self.values.reshape(-1)[at])]
        found = lines[(*places, np.where(inside, chosen, 0))]
        alike = np.asarray((found == wanted) | ((found != found) & (wanted != wanted)), np.bool_)
        right: NDArray[np.bool_] = alike & inside
        return right
