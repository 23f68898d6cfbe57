"""Memory for input sets outside torch's allocator: rooms for candidates, and one of our own.

A room is one allocation that holds some sets one behind the other. What a candidate is given lies
in a room that is exported to it alone; what the reference is timed on lies in one like it.

Covered: memory beside a room. The driver puts small allocations of a process side by side into one
piece and shares the whole piece, so a room is whole pieces, and nothing of before is left in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from evaluator.values import DEVICE_ALIGNMENT_BYTES
from evaluator.wire import ValueSpec, layout
from evaluator.worker.cuda.comparison import CHUNK
from evaluator.worker.cuda.driver import Driver

__all__ = ["Room", "Rooms", "set_bytes", "unchanged"]

PIECE_BYTES = 2 << 20
"""What the driver shares at least.

Source: NVIDIA, CUDA Runtime API, cudaIpcGetMemHandle: memory "may be sub-allocated from a larger
    block", and then "the entire underlying memory block" is shared.
"""


class Room:
    """One allocation with places for input sets.

    Args:
        driver: The device.
        inputs: Specs of a set, offsets included.
        places: Sets that there is room for.
    """

    def __init__(self, driver: Driver, inputs: Sequence[ValueSpec], places: int) -> None:
        self.places = places
        self._driver = driver
        self._inputs = inputs
        self._stride = set_bytes(inputs)
        size = -(-places * self._stride // PIECE_BYTES) * PIECE_BYTES
        self._address = driver.allocate(size)
        # A rehearsal reads it before anything is written there: indices must not be garbage.
        whole = ValueSpec(dtype="uint8", shape=(size,), stride=(1,))
        driver.tensor(self._address, whole).zero_()
        driver.synchronize()

    def copy_from(self, other: Room, places: int) -> None:
        """Copy the first places of a room of the same inputs, all at once."""
        self._bytes(places).copy_(other._bytes(places))

    def equals(self, other: Room, places: int) -> bool:
        """Tell whether the first places of a room of the same inputs hold the same, gaps too."""
        return unchanged([(self._bytes(places), other._bytes(places))])

    def _bytes(self, places: int) -> torch.Tensor:
        spec = ValueSpec(dtype="uint8", shape=(places * self._stride,), stride=(1,))
        return self._driver.tensor(self._address, spec)

    def export(self) -> tuple[str, int]:
        """Return a handle for another process, and where in its allocation the room begins."""
        base, _ = self._driver.allocation(self._address)
        return self._driver.export(base), self._address - base

    @property
    def extent(self) -> tuple[int, int]:
        """Its address, and its bytes."""
        return self._address, self.places * self._stride

    def values(self, place: int) -> list[object]:
        """Return tensors over a place; None for plain numbers."""
        base = self._address + place * self._stride
        return [
            None
            if spec.dtype.startswith("python:")
            else self._driver.tensor(base + spec.offset, spec)
            for spec in self._inputs
        ]

    def write(self, place: int, values: Sequence[object]) -> None:
        """Copy a set into a place."""
        for copy, value in self.pairs(place, values):
            copy.copy_(value)

    def pairs(
        self, place: int, values: Sequence[object]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return each tensor of a place with the one that was copied there."""
        return [
            (copy, value)
            for copy, value in zip(self.values(place), values, strict=True)
            if isinstance(copy, torch.Tensor) and isinstance(value, torch.Tensor) and value.numel()
        ]

    def release(self) -> None:
        """Free the memory."""
        self._driver.release(self._address)


class Rooms:
    """The rooms of candidates, by number.

    Args:
        driver: The device.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._rooms: dict[int, Room] = {}

    def __getitem__(self, number: int) -> Room:
        """Return an open room."""
        return self._rooms[number]

    @property
    def extents(self) -> dict[int, tuple[int, int]]:
        """Address and bytes of each."""
        return {number: room.extent for number, room in self._rooms.items()}

    def open(self, number: int, inputs: Sequence[ValueSpec], places: int) -> Room:
        """Allocate a room; see `Room`."""
        room = self._rooms[number] = Room(self._driver, inputs, places)
        return room

    def close(self, numbers: Sequence[int]) -> None:
        """Free the memory of rooms; a number without one is none."""
        for number in numbers:
            room = self._rooms.pop(number, None)
            if room is not None:
                room.release()


def set_bytes(inputs: Sequence[ValueSpec]) -> int:
    """Return the bytes from one set of a room to the next."""
    return max(layout(inputs, DEVICE_ALIGNMENT_BYTES)[1], DEVICE_ALIGNMENT_BYTES)


def unchanged(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Tell whether all pairs are equal bit for bit; the device is waited for once."""
    differences = [
        (copy[at : at + CHUNK] != value[at : at + CHUNK]).any()
        for copy, value in ((_bits(copy), _bits(value)) for copy, value in pairs)
        for at in range(0, len(copy), CHUNK)
    ]
    return not differences or not bool(torch.stack(differences).any())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's bits: NaN is unequal to itself, and minus zero equal to zero."""
    flat = tensor.reshape(-1).view(torch.uint8)
    return flat.view(torch.int64) if len(flat) % 8 == 0 else flat
