"""Tensors as the referee sees them: bytes, a shape, strides and a dtype's name.

numpy knows no bfloat16: such values are kept as uint16 and widened where they are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["DTYPES", "Array", "Shaped", "filled", "is_float", "narrow"]

DTYPES: dict[str, np.dtype[np.generic]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.uint8),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}
FLOATS = frozenset({"float64", "float32", "float16", "bfloat16"})


def is_float(dtype: str) -> bool:
    """Tell whether values of a dtype are judged by their error rather than by equality."""
    return dtype in FLOATS


class Shaped(Protocol):
    """A tensor, or what says its shape and dtype."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost first."""
        ...

    @property
    def dtype(self) -> str:
        """Name of the dtype, without "torch."."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """One tensor in memory that the referee can read.

    Attributes:
        values: A strided view of the elements, in the tensor's shape.
        dtype: Name of the tensor's dtype, without "torch.".
    """

    values: NDArray[np.generic]
    dtype: str

    @classmethod
    def of(cls, values: NDArray[np.generic]) -> Array:
        """Wrap a numpy array of any dtype that numpy knows."""
        return cls(values=values, dtype=values.dtype.name)

    @classmethod
    def within(
        cls,
        memory: NDArray[np.uint8],
        offset: int,
        shape: Sequence[int],
        stride: Sequence[int],
        dtype: str,
    ) -> Array:
        """Lay a tensor over a byte buffer.

        Args:
            memory: The buffer, of bytes.
            offset: Byte offset of the first element.
            shape: Sizes, outermost first.
            stride: Strides in elements, none negative.
            dtype: Name of the dtype.

        Raises:
            ValueError: An unknown dtype, malformed sizes, or elements outside the buffer.
        """
        if dtype not in DTYPES:
            raise ValueError(f"unknown dtype {dtype!r}")
        numbers = [offset, *shape, *stride]
        if len(shape) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
            raise ValueError(f"malformed layout: shape {shape}, stride {stride}, offset {offset}")
        item = DTYPES[dtype].itemsize
        empty = any(size == 0 for size in shape)
        reach = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        span = 0 if empty else (reach + 1) * item
        if offset + span > len(memory):
            raise ValueError(f"a tensor of {span} bytes at {offset} leaves {len(memory)} bytes")
        flat = memory[offset : offset + span].view(DTYPES[dtype])
        strides = tuple(step * item for step in stride)
        view = np.lib.stride_tricks.as_strided(flat, tuple(shape), strides, writeable=False)
        return cls(values=view, dtype=dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost first."""
        return self.values.shape

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.values.size

    def part(self, start: int, count: int) -> Array:
        """Return a view of `count` elements from flat position `start` on; row-major alone."""
        assert self.values.flags.c_contiguous, "a part is taken of row-major tensors"
        return Array(values=self.values.reshape(-1)[start : start + count], dtype=self.dtype)

    def chunk(self, start: int, count: int) -> NDArray[np.generic]:
        """Copy `count` elements from flat (row-major) position `start` on."""
        return np.array(self.peek(start, count))

    def peek(self, start: int, count: int) -> NDArray[np.generic]:
        """Like `chunk`, without a copy where possible: for memory that nobody else writes."""
        if self.values.flags.c_contiguous:
            return self.values.reshape(-1)[start : start + count]
        return np.asarray(self.values.flat[start : start + count])


def filled(shape: Sequence[int], dtype: str, value: float) -> Array:
    """Return an array of one value, rounded to the dtype."""
    if dtype == "bfloat16":
        bits = np.float32(value).view(np.uint32) >> np.uint32(16)
        return Array(values=np.full(shape, bits, dtype=np.uint16), dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        one = np.asarray(value).astype(DTYPES[dtype])
    return Array(values=np.broadcast_to(one, tuple(shape)), dtype=dtype)


def narrow(array: Array, start: int, count: int) -> NDArray[np.generic]:
    """Copy a chunk of a floating array; bfloat16 becomes float32, the rest keeps its type."""
    values = array.chunk(start, count)
    if array.dtype == "bfloat16":
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values
