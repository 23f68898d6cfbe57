"""Trace a problem's reference on meta tensors into an operator graph.

`trace` runs the user's module, so it belongs in a child process; on meta tensors nothing is
computed and nothing is allocated, whatever the sizes. torch is imported at the first call.
"""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from problems.errors import ProblemError
from problems.graph import Node, OperatorGraph, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import torch
    from torch import nn

__all__ = ["trace"]

_T = TypeVar("_T")
_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def trace(source: str, precision: str = "fp32") -> OperatorGraph:
    """Record what a problem's reference computes.

    The model is built and called once as the benchmark does it: in training mode, without
    gradients, floating-point parameters and inputs in the asked precision, integer and boolean
    inputs as they are. Every operation that reaches the dispatcher is a node, views included;
    composite operations appear as their parts.

    Args:
        source: Text of a module with `Model`, `get_inputs` and `get_init_inputs`.
        precision: "fp32", "fp16" or "bf16".

    Returns:
        The graph. Tensors that the model keeps in plain attributes, that `forward` makes of
        lists, or that the module made at its top level, count as buffers named "constant0",
        "constant1" and so on. `torch.tensor` of a number in `forward` appears as `torch.full`.

    Raises:
        ProblemError: The precision is unknown, or the module does not load, build or run.
    """
    if precision not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise ProblemError(f"unknown precision {precision!r}: expected one of {known}")
    import torch

    dtype: torch.dtype = getattr(torch, _DTYPES[precision])
    name = f"problem_{uuid.uuid4().hex}"
    module = ModuleType(name)
    # Dataclasses and pickling look their module up by name while it loads.
    sys.modules[name] = module
    try:
        with torch.device("meta"), torch.no_grad():
            model, inputs = _build(module, source, dtype)
            return _record(model, inputs)
    finally:
        del sys.modules[name]


def _build(module: ModuleType, source: str, dtype: torch.dtype) -> tuple[nn.Module, list[Any]]:
    """Run the module; return the model and its inputs, everything on the meta device."""
    import torch

    def load() -> None:
        code = compile(source, "<problem>", "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - a problem is a program

    _attempt("loading the module", load)
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not callable(getattr(module, name, None)):
            raise ProblemError(f"the problem's module defines no {name}: add it at its top level")

    def to_meta(values: object, function: str) -> list[Any]:
        if not isinstance(values, list | tuple):
            kind = type(values).__name__
            raise ProblemError(
                f"{function}() of the problem's module returned a {kind}: expected a list"
            )
        return [
            value.to("meta", dtype if value.is_floating_point() else value.dtype)
            if isinstance(value, torch.Tensor)
            else value
            for value in values
        ]

    init = to_meta(_attempt("calling get_init_inputs()", module.get_init_inputs), "get_init_inputs")
    model = _attempt("constructing Model", lambda: module.Model(*init))
    if not isinstance(model, torch.nn.Module):
        raise ProblemError("Model of the problem's module is no torch.nn.Module: derive it from it")
    model = _attempt("moving Model", lambda: model.to("meta", dtype))
    for part in model.modules():
        for attribute, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, attribute, value.to("meta"))
    inputs = to_meta(_attempt("calling get_inputs()", module.get_inputs), "get_inputs")
    return model, inputs


def _attempt(doing: str, action: Callable[[], _T]) -> _T:
    """Run a piece of the user's module; whatever it raises becomes one sentence."""
    try:
        return action()
    except (Exception, SystemExit) as error:  # the user's module may raise anything, and exit
        lines = str(error).strip().splitlines()
        detail = f": {lines[0][:300]}" if lines else ""
        raise ProblemError(
            f"{doing} of the problem failed with {type(error).__name__}{detail}"
        ) from error


def _record(model: nn.Module, inputs: Sequence[Any]) -> OperatorGraph:
    import torch

    ledger = _Ledger()
    specs = tuple(_describe_input(ledger, index, value) for index, value in enumerate(inputs))
    parameters = {
        name: ledger.add(f"param:{name}", tensor) for name, tensor in model.named_parameters()
    }
    for name, tensor in model.named_buffers():
        ledger.add_buffer(name, tensor)
    with _recorder(ledger), _numbers_shown():
        result = _attempt("running forward of Model", lambda: model(*inputs))
    values = list(result) if isinstance(result, list | tuple) else [result]
    for value in values:
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise ProblemError(
                f"forward of the problem's Model returned a {kind}: expected a tensor, or a list "
                "or tuple of tensors"
            )
    return OperatorGraph(
        inputs=specs,
        parameters=parameters,
        outputs=tuple(ledger.name(value) for value in values),
        buffers=ledger.buffers,
        nodes=tuple(ledger.nodes),
    )


def _describe_input(
    ledger: _Ledger, index: int, value: object
) -> TensorSpec | float | int | bool | None:
    import torch

    if isinstance(value, torch.Tensor):
        return ledger.add(f"input{index}", value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ProblemError(
        f"input {index} of the problem is a {type(value).__name__}: expected a tensor, a number "
        "or None"
    )


def _recorder(ledger: _Ledger) -> AbstractContextManager[object]:
    """Return a dispatch mode that writes every operation into the ledger."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch leaves it untyped
        def __torch_dispatch__(
            self,
            func: Callable[..., object],
            types: object,
            args: tuple[object, ...] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            arguments = tuple(ledger.encode(argument) for argument in args)
            keywords = {key: ledger.encode(value) for key, value in (kwargs or {}).items()}
            result = func(*args, **(kwargs or {}))
            ledger.append(str(func), arguments, keywords, result)
            return result

    recorder: AbstractContextManager[object] = Recorder()  # type: ignore[no-untyped-call] # same
    return recorder


def _numbers_shown() -> AbstractContextManager[object]:
    """Return a mode in which `torch.tensor` of a number is `torch.full`, which shows the number.

    The dispatcher never sees `torch.tensor`, and on the meta device its value is lost.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    class Shower(TorchFunctionMode):
        def __torch_function__(
            self,
            func: Callable[..., object],
            types: object,
            args: tuple[object, ...] = (),
            kwargs: Mapping[str, object] | None = None,
        ) -> object:
            if func is torch.tensor and len(args) == 1 and type(args[0]) in (bool, int, float):
                return torch.full((), *args, **(kwargs or {}))  # type: ignore[call-overload] # as `tensor`
            return func(*args, **(kwargs or {}))

    return Shower()


@dataclass(slots=True)
class _Ledger:
    """What is known during a trace: names of values, numbers of storages, nodes so far.

    Attributes:
        buffers: Specs of the buffers by name.
        nodes: Operations in the order they ran.
        names: Value name of each tensor seen, by `id`.
        storages: Number of each storage seen, by its address.
        alive: The tensors seen: kept, since a freed one's `id` and storage are used again.
    """

    buffers: dict[str, TensorSpec] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    storages: dict[int, int] = field(default_factory=dict)
    alive: list[torch.Tensor] = field(default_factory=list)

    def add(self, name: str, tensor: torch.Tensor) -> TensorSpec:
        """Give a tensor a name, or a new one after an operation in place."""
        self.alive.append(tensor)
        self.names[id(tensor)] = name
        address = tensor.untyped_storage()._cdata
        return TensorSpec(
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            dtype=str(tensor.dtype).removeprefix("torch."),
            storage=self.storages.setdefault(address, len(self.storages)),
            offset=int(tensor.storage_offset()),
        )

    def add_buffer(self, name: str, tensor: torch.Tensor) -> None:
        """Give a buffer its name."""
        self.buffers[name] = self.add(f"buffer:{name}", tensor)

    def name(self, tensor: torch.Tensor) -> str:
        """Return a tensor's name; one never seen before becomes a constant."""
        if id(tensor) not in self.names:
            count = sum(name.startswith("constant") for name in self.buffers)
            self.add_buffer(f"constant{count}", tensor)
        return self.names[id(tensor)]

    def encode(self, argument: object) -> object:
        """Return an operation's argument as JSON-able data."""
        import torch

        if isinstance(argument, torch.Tensor):
            return {"value": self.name(argument)}
        if isinstance(argument, list | tuple):
            return [self.encode(item) for item in argument]
        if argument is None or isinstance(argument, bool | int | float | str):
            return argument
        return str(argument).removeprefix("torch.")

    def append(
        self, op: str, arguments: tuple[Any, ...], keywords: dict[str, Any], result: object
    ) -> None:
        """Write down one operation that has run."""
        import torch

        results = result if isinstance(result, list | tuple) else [result]
        tensors = [value for value in results if isinstance(value, torch.Tensor)]
        node = f"node{len(self.nodes)}"
        outputs = tuple(
            self.add(f"{node}.{index}" if index else node, tensor)
            for index, tensor in enumerate(tensors)
        )
        inputs = tuple(_values([*arguments, *keywords.values()]))
        self.nodes.append(
            Node(op=op, inputs=inputs, arguments=arguments, keywords=keywords, outputs=outputs)
        )


def _values(arguments: Sequence[Any]) -> list[str]:
    """Return the value names in encoded arguments, in order."""
    names: list[str] = []
    for argument in arguments:
        if isinstance(argument, dict):
            names.append(argument["value"])
        elif isinstance(argument, list):
            names.extend(_values(argument))
    return names
