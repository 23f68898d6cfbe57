"""Tensors that a graph makes of one number: `torch.full`, `zeros_like` and their kind."""

from __future__ import annotations

import math
import struct

from operators.sketches.patterns.bands import Band, Number, typed
from problems.graph import Node

__all__ = ["created", "rounded"]

_VALUES: dict[str, Number | None] = {
    "full": None,
    "full_like": None,
    "new_full": None,
    "new_ones": 1,
    "new_zeros": 0,
    "ones": 1,
    "ones_like": 1,
    "scalar_tensor": None,
    "zeros": 0,
    "zeros_like": 0,
}
"""What each operation fills a new tensor with; None where its last argument says so."""


def created(node: Node) -> Number | None:
    """Return the number that every element of a node's output is, in its dtype.

    Returns:
        The number; None where the node makes no new tensor of one number.
    """
    name = node.op.split(".")[1]
    if name not in _VALUES:
        return None
    value = _VALUES[name]
    if value is None:
        value = node.arguments[-1]
    if not isinstance(value, bool | int | float):
        return None
    dtype = node.outputs[0].dtype
    if "float" not in dtype and not math.isfinite(value):
        return None
    band = typed(Band(low=value, high=value), dtype)
    return rounded(band.low, dtype) if band is not None else None


def rounded(value: Number, dtype: str) -> Number:
    """Return a number as float16 or bfloat16 hold it; in any other dtype as it is."""
    if dtype not in ("float16", "bfloat16") or not math.isfinite(value) or not value:
        return value
    if dtype == "bfloat16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        (result,) = struct.unpack("<f", struct.pack("<I", bits))
        return float(result)
    try:
        (result,) = struct.unpack("<e", struct.pack("<e", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(result)
