"""Parameters and buffers of a model: published, loaded, redrawn, and put back after a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from evaluator.wire import ValueSpec, layout
from evaluator.worker.tensors import Memory, read, spec_of, write

__all__ = [
    "BufferKeeper",
    "convert",
    "load_state",
    "publish_state",
    "redraw",
    "state_specs",
    "state_tensors",
    "take_precision",
    "touch",
    "widen_plain_tensors",
]


def state_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors of the model's `state_dict`, by name."""
    values = model.state_dict(keep_vars=True)
    return {name: v.detach() for name, v in values.items() if isinstance(v, torch.Tensor)}


def state_specs(model: nn.Module) -> tuple[ValueSpec, ...]:
    """Return the specs of the published state, row-major, laid out one after the other."""
    specs = tuple(
        spec_of(tensor.contiguous(), name=name) for name, tensor in state_tensors(model).items()
    )
    offsets, _ = layout(specs)
    return tuple(replace(spec, offset=at) for spec, at in zip(specs, offsets, strict=True))


def publish_state(model: nn.Module, memory: Memory) -> None:
    """Write the model's state to shared memory."""
    specs = state_specs(model)
    if not specs:
        return
    buffer = memory.buffer()
    for spec, tensor in zip(specs, state_tensors(model).values(), strict=True):
        write(buffer, 0, spec, tensor)


def load_state(model: nn.Module, memory: Memory, specs: Sequence[ValueSpec]) -> bool:
    """Load the published state into a candidate's model.

    Returns:
        False, and nothing is loaded, where names, shapes or dtypes differ.
    """
    own = state_tensors(model)
    if set(own) != {spec.name for spec in specs}:
        return False
    if not specs:
        return True
    buffer = memory.buffer()
    published = {spec.name: read(buffer, 0, spec) for spec in specs}
    for name, tensor in own.items():
        value = published[name]
        assert isinstance(value, torch.Tensor)
        if value.shape != tensor.shape or value.dtype != tensor.dtype:
            return False
    for name, tensor in own.items():
        value = published[name]
        assert isinstance(value, torch.Tensor)
        tensor.copy_(value)
    return True


def convert(model: nn.Module, device: torch.device, dtype: torch.dtype) -> dict[str, list[str]]:
    """Move a reference to its device and its precision, as KernelBench does: by `Module.to`.

    That converts all parameters and buffers of real or complex numbers, buffers that are not
    persistent among them. Tensors in plain attributes stay as constructed.

    Args:
        model: As constructed; it is changed.
        device: Where it is to be.
        dtype: Its precision.

    Returns:
        Of each parameter and buffer that this converts, by name: its type as constructed, and now.
    """
    before = {
        name: value.dtype
        for name, value in _convertible(model).items()
        if value.is_floating_point() or value.is_complex()
    }
    model.to(device=device, dtype=dtype)
    after = _convertible(model)
    return {name: [_word(was), _word(after[name].dtype)] for name, was in before.items()}


def take_precision(model: nn.Module, conversions: Mapping[str, Sequence[str]]) -> None:
    """Convert a candidate's parameters and buffers as the reference's were, where names agree.

    KernelBench converts all of both. Here it is what has a name of the reference's, persistent or
    not, and the type that the reference's had when constructed, or float32, in which modules are
    constructed unless they say otherwise. What has another name, or another type, is the
    candidate's own affair. Tensors in plain attributes stay as constructed, as the reference's do.

    Args:
        model: As constructed.
        conversions: What `convert` returned for the reference.
    """
    for name, value in _convertible(model).items():
        if name not in conversions or is_lazy(value):
            continue
        was, now = (getattr(torch, word) for word in conversions[name])
        if value.dtype in (was, torch.float32) and value.dtype != now:
            value.data = value.data.to(now)


def redraw(
    constructed: Mapping[str, torch.Tensor], model: nn.Module, generator: torch.Generator
) -> None:
    """Set parameters and buffers to values that the constructor would not give.

    What is positive throughout stays positive: scaled by 0.5 to 1.5 (variances, gains). The rest
    is moved by half its own root mean square, or by 0.1 where it is zero (biases).

    Args:
        constructed: The state as constructed, by name.
        model: Gets the new state.
        generator: Source of the randomness.
    """
    for name, tensor in state_tensors(model).items():
        start = constructed[name]
        if not start.is_floating_point() or start.numel() == 0:
            tensor.copy_(start)
            continue
        exact = start.double()
        if bool((exact > 0).all()):
            factor = torch.rand(start.shape, generator=generator, dtype=torch.float64) + 0.5
            tensor.copy_(exact * factor.to(exact.device))
        else:
            scale = 0.5 * float(exact.square().mean().sqrt()) or 0.1
            noise = torch.randn(start.shape, generator=generator, dtype=torch.float64)
            tensor.copy_(exact + scale * noise.to(exact.device))


class BufferKeeper:
    """Puts a model's buffers back, so that every call starts from the same state.

    Training mode changes them (running statistics), and recurrent models may keep a hidden state;
    a run of calls must not depend on those before it.

    Args:
        model: The model.
        plain: Keep tensors in plain attributes too.
    """

    def __init__(self, model: nn.Module, *, plain: bool = False) -> None:
        self._slots = [
            (module, name, value, value.clone())
            for module in model.modules()
            for name, value in _own_tensors(module, plain=plain)
        ]

    def keep(self) -> None:
        """Take the present values as those to go back to."""
        self._slots = [
            (module, name, now, now.clone())
            for module, name, value, _ in self._slots
            if isinstance(now := getattr(module, name, value), torch.Tensor)
        ]

    def put_back(self) -> None:
        """Restore the values kept, in the tensors that held them."""
        for module, name, value, kept in self._slots:
            if getattr(module, name, None) is not value:
                setattr(module, name, value)
            value.copy_(kept)


def widen_plain_tensors(model: nn.Module) -> None:
    """Turn floating-point tensors in plain attributes into float64, which `double` leaves out."""
    for module in model.modules():
        for name, value in _own_tensors(module, plain=True):
            if value.is_floating_point():
                setattr(module, name, value.double())


def _convertible(model: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of the model's `state_dict`, and its buffers that are not persistent, by name."""
    found = dict(model.named_buffers(remove_duplicate=False))
    values = model.state_dict(keep_vars=True).items()
    return found | {name: v for name, v in values if isinstance(v, torch.Tensor)}


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _own_tensors(module: nn.Module, *, plain: bool) -> list[tuple[str, torch.Tensor]]:
    found = list(module.named_buffers(recurse=False))
    if plain:
        values = vars(module).items()
        found += [(name, value) for name, value in values if type(value) is torch.Tensor]
    return found


def touch(model: nn.Module) -> None:
    """Give every parameter and buffer that has versions a new one; their values stay."""
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            if not (is_lazy(value) or value.is_inference()):
                value.copy_(value)
