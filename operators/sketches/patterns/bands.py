"""Constant matrices with one value up to a diagonal and another beyond it, as masks are.

Such matrices are followed through the operations that make masks, by their two values alone, so
it is known what a mask holds at every place without computing it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Band", "Number", "joined", "triangle", "turned", "typed"]

Number = bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A matrix of two values.

    Attributes:
        low: The value where column <= row + diagonal.
        high: The value elsewhere.
        diagonal: Where `low` ends; means nothing where the two are equal.
    """

    low: Number
    high: Number
    diagonal: int = 0

    @property
    def uniform(self) -> bool:
        """Whether both values are the same, so that the matrix holds it everywhere."""
        return self.low == self.high


def _selected(condition: Number, one: Number, other: Number) -> Number:
    return one if condition else other


def _filled(x: Number, mask: Number, value: Number) -> Number:
    return value if mask else x


_OPERATIONS: Mapping[str, Callable[..., Number]] = {
    "add": operator.add,
    "bitwise_not": operator.not_,
    "eq": operator.eq,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "logical_not": operator.not_,
    "lt": operator.lt,
    "masked_fill": _filled,
    "mul": operator.mul,
    "ne": operator.ne,
    "neg": operator.neg,
    "rsub": lambda x, y: y - x,
    "sub": operator.sub,
    "where": _selected,
}
"""What operations do to each element, by their names in torch."""


def joined(name: str, arguments: Sequence[Band | Number]) -> Band | None:
    """Apply an operation to each element of matrices of one size, and to numbers.

    Args:
        name: Its name in torch, such as "eq".
        arguments: Its operands in their order.

    Returns:
        The result; None where the operation is unknown or the operands' diagonals differ.
    """
    bands = [a if isinstance(a, Band) else Band(low=a, high=a) for a in arguments]
    diagonals = {band.diagonal for band in bands if not band.uniform}
    operation = _OPERATIONS.get(name)
    if operation is None or len(diagonals) > 1:
        return None
    if name == "bitwise_not" and not all(isinstance(b.low, bool) for b in bands):
        return None
    low = operation(*(band.low for band in bands))
    high = operation(*(band.high for band in bands))
    return Band(low=low, high=high, diagonal=diagonals.pop() if diagonals else 0)


def triangle(name: str, band: Band, diagonal: int) -> Band | None:
    """Return `tril` or `triu` of a matrix that holds one value; None for any other."""
    if not band.uniform:
        return None
    zero = type(band.low)(0)
    if name == "tril":
        return Band(low=band.low, high=zero, diagonal=diagonal)
    return Band(low=zero, high=band.low, diagonal=diagonal - 1)


def turned(band: Band) -> Band:
    """Return the matrix with rows and columns swapped."""
    return Band(low=band.high, high=band.low, diagonal=-band.diagonal - 1)


def typed(band: Band, dtype: str) -> Band | None:
    """Return the matrix in another dtype; None where an integer type cannot hold its values."""
    if dtype == "bool":
        return Band(low=bool(band.low), high=bool(band.high), diagonal=band.diagonal)
    if "float" in dtype:
        return Band(low=float(band.low), high=float(band.high), diagonal=band.diagonal)
    if float(band.low).is_integer() and float(band.high).is_integer():
        return Band(low=int(band.low), high=int(band.high), diagonal=band.diagonal)
    return None
