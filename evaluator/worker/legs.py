"""Legs: several calls in a row for the referee's clock; writing outputs to shared memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.wire import ALIGNMENT_BYTES, ValueSpec
from evaluator.worker.failures import Failure
from evaluator.worker.tensors import Memory, dtype_name, read, write

__all__ = ["Leg", "tensors_of", "write_outputs"]

_type = type
_contiguous = torch.Tensor.contiguous


class Leg:
    """The outputs of the last leg, and those that are held beyond it."""

    def __init__(self) -> None:
        self._outputs: list[object] = []
        self._held: list[object] = []

    def run(
        self,
        forward: Callable[..., object],
        memory: Memory,
        inputs: Sequence[ValueSpec],
        bases: Sequence[int],
    ) -> dict[str, Any]:
        """Call once per input set and keep the outputs; nothing else happens meanwhile.

        The last leg's outputs go first: their memory, whose pages are there, serves again. All
        that the clock sees is here, the same for reference and candidate: 3 us more a call on one
        side make a claim of 5 % out of a kernel of 60 us.

        Args:
            forward: What is called.
            memory: Where the input sets lie.
            inputs: Specs of a set.
            bases: Where each set starts.
        """
        self.clear()
        buffer = memory.buffer()
        arguments = [[read(buffer, base, spec) for spec in inputs] for base in bases]
        outputs: list[object] = []
        keep = outputs.append
        gc.disable()
        try:
            for values in arguments:
                keep(forward(*values))
        finally:
            gc.enable()
        self._outputs = outputs
        return {
            "addresses": [_addresses(output) for output in outputs],
            "strides": [_strides(output) for output in outputs],
        }

    def clear(self) -> None:
        """Let go of the outputs that are kept."""
        self._outputs = []

    def hold(self, call: int) -> None:
        """Keep what a call of the last leg returned, as a user would who needs it later."""
        self._held = [self.output(call)]

    def output(self, call: int) -> object:
        """Return what a call of the last leg returned.

        Raises:
            Failure: The last leg has no such call.
        """
        if not 0 <= call < len(self._outputs):
            raise Failure(Status.RUNTIME_ERROR, "no_such_call", f"no call {call} in the last leg")
        return self._outputs[call]


def _addresses(returned: object) -> list[int]:
    """Return where the tensors of an output lie: the referee reads them there, unasked."""
    return [value.data_ptr() for value in _tensors_in(returned)]


def _strides(returned: object) -> list[list[int]]:
    """Return how the tensors of an output lie there, in elements."""
    return [list(value.stride()) for value in _tensors_in(returned)]


def _tensors_in(returned: object) -> list[torch.Tensor]:
    values = returned if isinstance(returned, tuple | list) else (returned,)
    return [value for value in values if isinstance(value, torch.Tensor)]


def tensors_of(returned: object, device: str = "cpu") -> tuple[list[torch.Tensor], bool]:
    """Return the tensors that a model returned, and whether as a tuple or list.

    Only plain tensors count: a subclass, or an object with attributes of its own, could put the
    work off until somebody looks.

    Args:
        returned: What forward returned.
        device: Kind of device that they must be on.

    Raises:
        Failure: There is something else.
    """
    several = _type(returned) in (tuple, list)
    values: Sequence[object] = returned if several else (returned,)  # type: ignore[assignment]
    if len(values) > 64:
        raise Failure(Status.WRONG_SHAPE, "output_count", f"{len(values)} outputs were returned")
    tensors = []
    for value in values:
        kind = _type(value)
        if kind is not torch.Tensor:
            lazy = issubclass(kind, torch.Tensor)
            raise Failure(
                Status.WRONG_DTYPE,
                "lazy_tensor" if lazy else "not_a_tensor",
                f"forward returned {kind.__name__}, expected a plain torch.Tensor",
            )
        assert isinstance(value, torch.Tensor)
        _check_plain(value, device)
        tensors.append(value)
    return tensors, several


def _check_plain(value: torch.Tensor, device: str) -> None:
    if value.device.type != device or value.layout is not torch.strided:
        raise Failure(
            Status.WRONG_DTYPE,
            "not_a_dense_tensor",
            f"forward returned a tensor on {value.device}, layout {value.layout}",
        )
    if value.__dict__:
        raise Failure(
            Status.WRONG_DTYPE, "lazy_tensor", "forward returned a tensor with own attributes"
        )
    if dtype_name(value.dtype) is None:
        raise Failure(Status.WRONG_DTYPE, "unknown_dtype", f"forward returned dtype {value.dtype}")


def write_outputs(memory: Memory, at: int, returned: object) -> dict[str, Any]:
    """Write what a model returned, row-major, and describe it.

    Args:
        memory: Where to.
        at: Offset of the first value, a multiple of `ALIGNMENT_BYTES`.
        returned: A tensor, or a tuple or list of tensors.

    Returns:
        outputs (specs with offsets and `own_stride`) and tuple.

    Raises:
        Failure: It is something else, or does not fit.
    """
    tensors, several = tensors_of(returned)
    buffer = memory.buffer()
    replies = []
    for tensor in tensors:
        dense = _contiguous(torch.Tensor.detach(tensor))
        dtype = dtype_name(dense.dtype)
        assert dtype is not None
        spec = ValueSpec(
            dtype=dtype, shape=tuple(dense.shape), stride=tuple(dense.stride()), offset=at
        )
        if at + spec.num_bytes > len(buffer):
            raise Failure(
                Status.WRONG_SHAPE,
                "output_too_large",
                f"the outputs need {at + spec.num_bytes} bytes, {len(buffer)} are expected",
            )
        write(buffer, 0, spec, dense)
        replies.append({**spec.to_json(), "own_stride": list(tensor.stride())})
        at += -(-spec.num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return {"outputs": replies, "tuple": several}
