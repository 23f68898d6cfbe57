"""Outputs that other processes read where they lie: described, exported, and laid out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.wire import ITEM_BYTES, ValueSpec
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.failures import Failure
from evaluator.worker.legs import tensors_of
from evaluator.worker.tensors import dtype_name

__all__ = ["Extent", "Handles", "Mappings", "attached", "describe_outputs"]


Handles = dict[int, str]
"""Handles of allocations, by their numbers: asking for one takes longer than looking it up."""

Extent = tuple[int, int]
"""Address and bytes of some memory."""

MOST_MAPPED = 16
"""Allocations that stay mapped: their memory stays in use, whoever has given it back."""


def describe_outputs(
    driver: Driver, returned: object, handles: Handles, rooms: Mapping[str, Extent]
) -> dict[str, Any]:
    """Describe and export what a model returned.

    Args:
        driver: The device.
        returned: A tensor, or a tuple or list of tensors.
        handles: Those known; new ones are added.
        rooms: Memory of another process that this one was given, by name.

    Returns:
        tuple, and outputs: specs with the byte offset in an allocation, its handle and its number,
        or in a room and its name; both are "" where nobody else can read the memory.

    Raises:
        Failure: It is something else.
    """
    tensors, several = tensors_of(returned, driver.device.type)
    outputs = []
    for tensor in tensors:
        dtype = dtype_name(tensor.dtype)
        assert dtype is not None
        place = _place(driver, tensor, handles, rooms) if tensor.numel() else _Place()
        spec = ValueSpec(
            dtype=dtype,
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            offset=place.offset,
        )
        where = {"handle": place.handle, "allocation": place.allocation, "room": place.room}
        outputs.append({**spec.to_json(), **where})
    return {"outputs": outputs, "tuple": several}


class Mappings:
    """Allocations of another process that stay mapped from one leg to the next.

    A candidate's outputs mostly lie where they lay before, and mapping an allocation takes several
    milliseconds while other processes create their contexts. A new allocation has another number,
    though its handle may be that of one before. Who hides that shows what lay in memory that it has
    given back, which is wrong for inputs that it had not seen.

    Args:
        driver: The device.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._mapped: dict[tuple[str, int], Extent] = {}

    def extent(self, handle: str, allocation: int) -> Extent:
        """Return where an allocation is mapped, and its bytes.

        Args:
            handle: What other processes map it by.
            allocation: Its number.

        Raises:
            Failure: It cannot be mapped.
        """
        key = handle, allocation
        if key not in self._mapped:
            self._mapped[key] = self._driver.attach(handle)
        return self._mapped[key]

    def make_room(self) -> None:
        """Unmap all of them where they are many; to be called before a call's outputs are asked."""
        if len(self._mapped) >= MOST_MAPPED:
            self.let_go()

    def let_go(self) -> None:
        """Unmap all of them."""
        mapped, self._mapped = self._mapped, {}
        for address, _ in mapped.values():
            # Whoever has exported it may have ended, or given it back: then it is gone.
            with suppress(Failure):
                self._driver.detach(address)


@contextmanager
def attached(
    driver: Driver,
    outputs: Sequence[Mapping[str, Any]],
    rooms: Mapping[int, Extent],
    mappings: Mappings | None = None,
) -> Iterator[list[torch.Tensor]]:
    """Map another process's outputs for the block.

    Args:
        driver: The device.
        outputs: As `describe_outputs` gives them, rooms by their numbers; they may come from a
            hostile process, but for the numbers.
        rooms: Memory of this process that the other one was given.
        mappings: What is mapped longer than that; None: nothing.

    Raises:
        Failure: They cannot be mapped, or leave their allocation.
    """
    passing = Mappings(driver)
    try:
        if mappings is None:
            tensors = _laid_out(driver, outputs, rooms, passing)
        else:
            mappings.make_room()
            try:
                tensors = _laid_out(driver, outputs, rooms, mappings)
            except Failure:
                # An allocation may have taken the place of one that is mapped still.
                mappings.let_go()
                tensors = _laid_out(driver, outputs, rooms, mappings)
        yield tensors
        driver.synchronize()
    finally:
        passing.let_go()


def _laid_out(
    driver: Driver,
    outputs: Sequence[Mapping[str, Any]],
    rooms: Mapping[int, Extent],
    mappings: Mappings,
) -> list[torch.Tensor]:
    """Tensors over outputs where they are mapped."""
    tensors = []
    for output in outputs:
        spec = ValueSpec.from_json(output)
        if spec.numel == 0:
            tensors.append(driver.tensor(0, spec))
            continue
        if output["room"] is not None:
            address, size = rooms[output["room"]]
        else:
            address, size = mappings.extent(str(output["handle"]), output["allocation"])
        if spec.offset % ITEM_BYTES[spec.dtype]:
            log = "an output lies at no multiple of its element size"
            raise Failure(Status.RUNTIME_ERROR, "bad_handle", log)
        if spec.offset + spec.num_bytes > size:
            raise Failure(Status.RUNTIME_ERROR, "bad_handle", "an output leaves its allocation")
        tensors.append(driver.tensor(address + spec.offset, spec))
    return tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a tensor lies: in an allocation, or in a room."""

    handle: str = ""
    allocation: int = 0
    room: str = ""
    offset: int = 0


def _place(
    driver: Driver, tensor: torch.Tensor, handles: Handles, rooms: Mapping[str, Extent]
) -> _Place:
    address = tensor.data_ptr()
    for name, (start, size) in rooms.items():
        # An input that is returned as it is lies in memory that cannot be exported again.
        if start <= address < start + size:
            return _Place(room=name, offset=address - start)
    try:
        base, number = driver.allocation(address)
        if number not in handles:
            handles[number] = driver.export(base)
        return _Place(handle=handles[number], allocation=number, offset=address - base)
    except Failure:
        return _Place()
