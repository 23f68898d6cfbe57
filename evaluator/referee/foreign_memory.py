"""Reading the memory of a halted process: what is not there yet will not be found.

Covered: outputs in any dense order of their dimensions, with gaps up to 31 times their size.
Not covered: hosts that forbid reading another process's memory (`can_read_memory`), whose
evaluations lack the protection `MEMORY_READ`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from evaluator.referee.arrays import DTYPES, Array, Shaped
from evaluator.referee.draws import row_major
from evaluator.wire import ITEM_BYTES, ValueSpec

__all__ = ["MEMORY_READ", "Place", "can_read_memory", "read_bytes", "with_memory_read"]

MEMORY_READ = "memory-read"
"""Name of a protection: what a candidate leaves undone when the clock stops is seen."""
MAX_SPREAD = 32
"""An output in other than row-major order may take so many times its size, gaps included."""
SLACK_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a candidate's process says that an output lies in its memory.

    Attributes:
        address: Of the first element.
        stride: In elements, none negative.
        shape: Sizes, outermost first.
        dtype: Name of the dtype.
    """

    address: int
    stride: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def of(cls, address: object, stride: object, like: Shaped) -> Place:
        """Check what a process claims about an output that must be like another.

        Raises:
            TypeError, ValueError: It is no address or no layout, or reaches beyond what a dense
                tensor with some padding takes.
        """
        if type(address) is not int or address < 0 or not isinstance(stride, list):
            raise TypeError("an address is a number, a stride a list of numbers")
        spec = ValueSpec.from_json(
            {"dtype": like.dtype, "shape": list(like.shape), "stride": stride}
        )
        if spec.num_bytes > MAX_SPREAD * (spec.numel * ITEM_BYTES[spec.dtype] + SLACK_BYTES):
            raise ValueError("an output is spread over too much memory")
        return cls(address=address, stride=spec.stride, shape=spec.shape, dtype=spec.dtype)

    def read(self, pid: int, part: slice) -> Array:
        """Read a part of the tensor out of a halted process.

        Args:
            pid: The process.
            part: Flat (row-major) positions; if they are all, the result has the tensor's shape.

        Raises:
            OSError: The memory is not there, or may not be read.
        """
        is_whole = part.start == 0 and part.stop == prod(self.shape)
        values = self._read(pid, part)
        if is_whole:
            values = values.reshape(self.shape)
        return Array(values=values, dtype=self.dtype)

    def _read(self, pid: int, part: slice) -> NDArray[np.generic]:
        item = DTYPES[self.dtype].itemsize
        if _same_layout(self.shape, self.stride):
            count = part.stop - part.start
            data = read_bytes(pid, self.address + part.start * item, count * item)
            return data.view(DTYPES[self.dtype])
        spec = ValueSpec(dtype=self.dtype, shape=self.shape, stride=self.stride)
        data = read_bytes(pid, self.address, spec.num_bytes)
        whole = Array.within(data, 0, self.shape, self.stride, self.dtype)
        return whole.chunk(part.start, part.stop - part.start)


def _same_layout(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether a layout is row-major, whatever the stride of a dimension of size 1."""
    pairs = zip(shape, stride, row_major(shape), strict=True)
    return 0 in shape or all(size == 1 or own == wanted for size, own, wanted in pairs)


def read_bytes(pid: int, address: int, count: int) -> NDArray[np.uint8]:
    """Read another process's memory.

    Raises:
        OSError: The memory is not there, or may not be read.
    """
    data = np.empty(count, dtype=np.uint8)
    view = memoryview(data.data)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        done = 0
        while done < count:
            got = memory.readinto(view[done:])
            if not got:
                raise OSError(f"no memory at address {address + done}")
            done += got
    return data


def can_read_memory(pid: int) -> bool:
    """Tell whether this host lets us read the memory of a worker, by one of ours."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            first = int(maps.readline().split("-")[0], 16)
        read_bytes(pid, first, 1)
    except (OSError, ValueError):
        return False
    return True


def with_memory_read(isolation: str, pid: int) -> str:
    """Complete the protections of a candidate's process by `MEMORY_READ`, where it holds.

    Args:
        isolation: Those that the process has by itself, joined by "+".
        pid: The process, before a candidate's code is loaded: later it could refuse.
    """
    if not can_read_memory(pid):
        return isolation
    return f"{isolation}+{MEMORY_READ}" if isolation else MEMORY_READ
