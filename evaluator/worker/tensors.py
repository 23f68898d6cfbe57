"""Shared memory as torch tensors.

Every view is a fresh tensor with a storage of its own over the shared bytes: a candidate cannot
leave anything on a tensor object that a later call sees.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

import torch

from evaluator.wire import ITEM_BYTES, ValueSpec
from evaluator.worker.kernel import map_private, map_shared

__all__ = ["Memory", "dtype_name", "read", "spec_of", "torch_dtype", "write"]

_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name) for name in ITEM_BYTES if not name.startswith("python:")
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FORMATS = {"python:float": "=d", "python:int": "=q", "python:bool": "=?7x", "python:none": "=8x"}


class Memory:
    """One shared memory file, mapped.

    Args:
        descriptor: The file; closed once it is mapped for good.
        private: Map it private at its present size, for good; else shared, following its size.
        populate: Make the pages of a private mapping present at once.
    """

    def __init__(self, descriptor: int, *, private: bool, populate: bool = False) -> None:
        self._descriptor: int | None = descriptor
        self._address = 0
        self._size = 0
        if private:
            size = os.fstat(descriptor).st_size
            if size:
                self._address = map_private(descriptor, size, populate=populate)
                self._size = size
            self._release()

    def map_for_good(self) -> None:
        """Map a shared file at its present size and give up its descriptor."""
        self._follow()
        self._release()

    def keep_part(self, offset: int, num_bytes: int) -> int:
        """Map whole pages of a shared file for good, and give up its descriptor.

        Args:
            offset: Where they begin.
            num_bytes: Their size.

        Returns:
            Their address. They stay mapped as long as the process lives.
        """
        assert self._descriptor is not None, "the file was given up before"
        address = map_shared(self._descriptor, num_bytes, offset)
        self._release()
        return address

    def buffer(self) -> ctypes.Array[ctypes.c_char]:
        """Return the bytes, at the size that the file has now."""
        self._follow()
        return (ctypes.c_char * self._size).from_address(self._address)

    def _follow(self) -> None:
        if self._descriptor is None:
            return
        size = os.fstat(self._descriptor).st_size
        if size > self._size:
            # Views of the old mapping may be alive: it stays.
            self._address, self._size = map_shared(self._descriptor, size), size

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def dtype_name(dtype: torch.dtype) -> str | None:
    """Return the name that the protocol has for a dtype; None: it has none."""
    return _NAMES.get(dtype)


def torch_dtype(name: str) -> torch.dtype:
    """Return the dtype that the protocol calls so; it must be a tensor's."""
    return _DTYPES[name]


def spec_of(value: object, *, offset: int = 0, name: str = "") -> ValueSpec:
    """Return the spec of a tensor or plain number.

    Raises:
        TypeError: The value is neither, or of a dtype that the protocol lacks.
    """
    if isinstance(value, torch.Tensor):
        dtype = dtype_name(value.dtype)
        if dtype is None or value.layout is not torch.strided:
            raise TypeError(f"a tensor of dtype {value.dtype}, layout {value.layout}")
        return ValueSpec(
            dtype=dtype,
            shape=tuple(value.shape),
            stride=tuple(value.stride()),
            offset=offset,
            name=name,
        )
    kind = "none" if value is None else type(value).__name__
    if f"python:{kind}" not in ITEM_BYTES:
        raise TypeError(f"a value of type {kind}")
    return ValueSpec(dtype=f"python:{kind}", offset=offset, name=name)


def read(buffer: ctypes.Array[ctypes.c_char], base: int, spec: ValueSpec) -> object:
    """Return a value: a fresh tensor over the shared bytes, or a plain number.

    Raises:
        ValueError: It lies outside the memory.
    """
    start = base + spec.offset
    _check(buffer, start, spec.num_bytes)
    if spec.dtype in _FORMATS:
        values: tuple[object, ...] = struct.unpack_from(_FORMATS[spec.dtype], buffer, start)
        return values[0] if values else None
    dtype = _DTYPES[spec.dtype]
    if spec.numel == 0:
        return torch.empty(spec.shape, dtype=dtype)
    count = spec.num_bytes // ITEM_BYTES[spec.dtype]
    flat = torch.frombuffer(buffer, dtype=dtype, count=count, offset=start)
    return flat.as_strided(spec.shape, spec.stride)


def write(buffer: ctypes.Array[ctypes.c_char], base: int, spec: ValueSpec, value: object) -> None:
    """Write a value where its spec says.

    Raises:
        ValueError: It would lie outside the memory.
    """
    start = base + spec.offset
    _check(buffer, start, spec.num_bytes)
    if spec.dtype in _FORMATS:
        arguments: Sequence[object] = () if value is None else (value,)
        struct.pack_into(_FORMATS[spec.dtype], buffer, start, *arguments)
        return
    assert isinstance(value, torch.Tensor)
    if spec.numel:
        target = read(buffer, base, spec)
        assert isinstance(target, torch.Tensor)
        torch.Tensor.copy_(target, value)


def _check(buffer: ctypes.Array[ctypes.c_char], start: int, num_bytes: int) -> None:
    if start < 0 or start + num_bytes > len(buffer):
        raise ValueError(
            f"a value at {start} with {num_bytes} bytes lies outside a memory of {len(buffer)}"
        )
