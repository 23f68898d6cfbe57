"""How much memory a problem's own tensors take."""

from __future__ import annotations

import math
from collections.abc import Iterable

from problems.graph import OperatorGraph, TensorSpec

__all__ = ["tensor_bytes"]

_ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "float32": 4,
    "int64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


def tensor_bytes(graph: OperatorGraph) -> int:
    """Return the bytes of a problem's inputs, parameters, buffers and outputs.

    Tensors that share memory count once; intermediate values do not count.

    Args:
        graph: The operator graph of the problem.
    """
    outputs = (graph.spec(name) for name in graph.outputs)
    values = (*graph.inputs, *graph.parameters.values(), *graph.buffers.values(), *outputs)
    return _storage_bytes(value for value in values if isinstance(value, TensorSpec))


def _storage_bytes(specs: Iterable[TensorSpec]) -> int:
    extents: dict[int, int] = {}
    for spec in specs:
        extents[spec.storage] = max(extents.get(spec.storage, 0), _extent_bytes(spec))
    return sum(extents.values())


def _extent_bytes(spec: TensorSpec) -> int:
    """Bytes from the start of the storage to the tensor's last element."""
    if math.prod(spec.shape) == 0:
        return 0
    last = sum((size - 1) * step for size, step in zip(spec.shape, spec.stride, strict=True))
    return (spec.offset + last + 1) * _ITEM_BYTES.get(spec.dtype, 8)
