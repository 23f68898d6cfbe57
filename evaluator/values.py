"""Values in shared memory: where a tensor or a plain number lies, and how."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from problems.errors import EvaluatorError

__all__ = [
    "ALIGNMENT_BYTES",
    "DEVICE_ALIGNMENT_BYTES",
    "ITEM_BYTES",
    "SIGNAL_BYTES",
    "FrameError",
    "Permitted",
    "ValueSpec",
    "decode_value",
    "encode_value",
    "layout",
]

ALIGNMENT_BYTES = 64
DEVICE_ALIGNMENT_BYTES = 512
"""What torch aligns tensors on a GPU to: copies that a candidate is given lie no worse."""
SIGNAL_BYTES = 4096
"""Memory in which one process's legs on a GPU are let go, and say that they are done: a page."""

ITEM_BYTES: Mapping[str, int] = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
    "python:float": 8,
    "python:int": 8,
    "python:bool": 8,
    "python:none": 8,
}
"""Bytes of one element by dtype; a plain Python value has 8 (a float64, or an int64)."""

_MAX_DIMENSIONS = 32
_MAX_ELEMENTS = 1 << 46


class FrameError(EvaluatorError):
    """The other side sent something that does not belong to the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """What the contents of a problem's input sets may be.

    Attributes:
        variants: Distributions that timed sets may be of.
        runs: Whether outliers may be neighbours, in timed sets and in the check's. A product of
            many of them overflows, and infinity times what has come to zero is no number: where
            that begins tells of the order of the factors, not of whether a program is right.
        overflowing: Distributions of which the check has no set, since the reference is not finite
            on them, for the same reason, though it is on its own.
    """

    variants: tuple[str, ...] = ("own",)
    runs: bool = True
    overflowing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Encode it as the fields of a reply."""
        return {
            "variants": list(self.variants),
            "runs": self.runs,
            "overflowing": list(self.overflowing),
        }

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Permitted:
        """Read it from a reply of a trusted worker."""
        return cls(
            variants=tuple(reply["variants"]),
            runs=bool(reply["runs"]),
            overflowing=tuple(reply["overflowing"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSpec:
    """Where a value lies in shared memory, and how.

    Attributes:
        dtype: A key of `ITEM_BYTES`: a torch dtype's name, or "python:float" and the like for a
            plain Python number.
        shape: Sizes, outermost first; empty for plain numbers.
        stride: Strides in elements, each >= 0.
        offset: In bytes, from the base of the set or the start of the memory.
        name: Of a parameter or buffer; else "".
    """

    dtype: str
    shape: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    offset: int = 0
    name: str = ""

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes from the first to behind the last element."""
        if self.numel == 0:
            return 0
        steps = sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        return (1 + steps) * ITEM_BYTES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON-able data, its bytes included."""
        return {
            "dtype": self.dtype,
            "shape": list(self.shape),
            "stride": list(self.stride),
            "offset": self.offset,
            "bytes": self.num_bytes,
            "name": self.name,
        }

    @classmethod
    def from_json(cls, data: object) -> ValueSpec:
        """Rebuild a spec from `to_json`; the data may come from a hostile process.

        Raises:
            FrameError: The data is no spec.
        """
        if not isinstance(data, dict):
            raise FrameError(f"a value spec is an object, got {type(data).__name__}")
        shape, stride = (_sizes(data.get(key, ())) for key in ("shape", "stride"))
        dtype, offset, name = data.get("dtype"), data.get("offset", 0), data.get("name", "")
        if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
            raise FrameError(f"a value spec names no known dtype: got {str(dtype)[:40]!r}")
        if len(shape) != len(stride):
            raise FrameError("a value spec has a shape and a stride of different lengths")
        if math.prod(shape) > _MAX_ELEMENTS:
            raise FrameError("a value spec has more than 2^46 elements")
        if not isinstance(name, str):
            raise FrameError("the name in a value spec is no text")
        return cls(dtype=dtype, shape=shape, stride=stride, offset=_size(offset), name=name)


def layout(
    specs: Sequence[ValueSpec], alignment_bytes: int = ALIGNMENT_BYTES
) -> tuple[tuple[int, ...], int]:
    """Lay values out one after the other.

    Args:
        specs: The values; their offsets are ignored.
        alignment_bytes: What every value starts at a multiple of.

    Returns:
        The offset of each value and the bytes of the whole set, all multiples of
        `alignment_bytes`.
    """
    offsets = []
    end = 0
    for spec in specs:
        offsets.append(end)
        end += -(-spec.num_bytes // alignment_bytes) * alignment_bytes
    return tuple(offsets), end


def encode_value(value: object) -> object:
    """Return plain data (numbers, texts, lists, tuples, dicts, None) as JSON-able data.

    Raises:
        TypeError: The value holds something else, such as a tensor.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [encode_value(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode_value(item) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode_value(item) for key, item in value.items()}}
    raise TypeError(f"{type(value).__name__} is not plain data")


def decode_value(data: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return the value of `encode_value`."""
    if isinstance(data, list):
        return [decode_value(item) for item in data]
    if not isinstance(data, dict):
        return data
    if "tuple" in data:
        return tuple(decode_value(item) for item in data["tuple"])
    if "float" in data:
        return float(data["float"])
    return {key: decode_value(item) for key, item in data["dict"].items()}


def _sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or len(value) > _MAX_DIMENSIONS:
        raise FrameError(f"a shape or stride is a list of at most {_MAX_DIMENSIONS} numbers")
    return tuple(_size(item) for item in value)


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_ELEMENTS:
        raise FrameError(f"a size, stride or offset is a whole number >= 0, got {str(value)[:40]}")
    return value
