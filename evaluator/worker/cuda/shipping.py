"""Outputs that other processes read where they lie: described, exported, and laid out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.wire import ValueSpec
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.failures import Failure
from evaluator.worker.legs import tensors_of
from evaluator.worker.tensors import dtype_name

__all__ = ["Handles", "attached", "describe_outputs"]


Handles = dict[int, str]
"""Handles of allocations, by their numbers: asking for one takes longer than looking it up."""


def describe_outputs(driver: Driver, returned: object, handles: Handles) -> dict[str, Any]:
    """Describe and export what a model returned.

    Args:
        driver: The device.
        returned: A tensor, or a tuple or list of tensors.
        handles: Those known; new ones are added.

    Returns:
        outputs (specs with the byte offset in the allocation, and its handle; "" where the memory
        is not this process's own) and tuple.

    Raises:
        Failure: It is something else.
    """
    tensors, several = tensors_of(returned, driver.device.type)
    outputs = []
    for tensor in tensors:
        dtype = dtype_name(tensor.dtype)
        assert dtype is not None
        handle, offset = _export(driver, tensor, handles) if tensor.numel() else ("", 0)
        spec = ValueSpec(
            dtype=dtype, shape=tuple(tensor.shape), stride=tuple(tensor.stride()), offset=offset
        )
        outputs.append({**spec.to_json(), "handle": handle})
    return {"outputs": outputs, "tuple": several}


@contextmanager
def attached(driver: Driver, outputs: Sequence[Mapping[str, Any]]) -> Iterator[list[torch.Tensor]]:
    """Map another process's outputs for the block.

    Args:
        driver: The device.
        outputs: As `describe_outputs` gives them; they may come from a hostile process.

    Raises:
        Failure: They cannot be mapped, or leave their allocation.
    """
    mapped: dict[str, tuple[int, int]] = {}
    try:
        tensors = []
        for output in outputs:
            spec = ValueSpec.from_json(output)
            if spec.numel == 0:
                tensors.append(driver.tensor(0, spec))
                continue
            handle = str(output["handle"])
            if handle not in mapped:
                mapped[handle] = driver.attach(handle)
            address, size = mapped[handle]
            if spec.offset + spec.num_bytes > size:
                raise Failure(Status.RUNTIME_ERROR, "bad_handle", "an output leaves its allocation")
            tensors.append(driver.tensor(address + spec.offset, spec))
        yield tensors
        driver.synchronize()
    finally:
        for address, _ in mapped.values():
            driver.detach(address)


def _export(driver: Driver, tensor: torch.Tensor, handles: Handles) -> tuple[str, int]:
    address = tensor.data_ptr()
    try:
        base, number = driver.allocation(address)
        if number not in handles:
            handles[number] = driver.export(base)
        return handles[number], address - base
    except Failure:
        # An input that is returned as it is lies in the referee's memory.
        return "", 0
