"""Running a reference through Inductor, and keeping the code that it writes.

The reference is built as the benchmark builds it (training mode, no gradients) and compiled
without guards for other sizes. Compiling happens on the CPU, and its inputs have no memory
meanwhile; kernels run on the device once at the end, so that Inductor's own choices of block sizes
can be read.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import nn

from evaluator.worker.inductor import (
    NotYet,
    Record,
    backend_of,
    generated_module,
    kernels_of,
    needed,
    watching,
)
from problems.lifted import Argument, Lifted, Output

__all__ = ["Lifter"]

_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_DETAIL_CHARACTERS = 300


class _Refused(Exception):
    """The generated code cannot be lifted; the arguments are reason and detail."""


class Lifter:
    """One reference on one device.

    Args:
        source: Text of the problem's module.
        precision: "fp32", "fp16" or "bf16".
        device: "cuda" or "cpu".

    Raises:
        Exception: Whatever the problem raises.
    """

    def __init__(self, source: str, precision: str, device: str) -> None:
        self._device = torch.device(device)
        dtype = _DTYPES[precision]
        module = ModuleType("evokernel_problem")
        code = compile(source, "problem.py", "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - a problem is a program
        torch.manual_seed(0)
        with self._device:
            model = module.Model(*module.get_init_inputs())
            inputs = module.get_inputs()
        self._model: nn.Module = model.to(self._device, dtype)
        self._numbers = {at for at, value in enumerate(inputs) if isinstance(value, float)}
        self._inputs = [_placed(value, self._device, dtype) for value in inputs]
        self._drawn = _of_their_own(self._inputs, self._device)
        self._put_away()
        self._record = Record()
        self._run: Callable[..., Any] | None = None
        self._options = ""
        self._seen: dict[str, str] = {}

    def compile(self, name: str, options: Mapping[str, object]) -> Lifted | None:
        """Let Inductor compile the reference, without running a kernel of it.

        Args:
            name: Of the option set.
            options: Values by their name in `torch._inductor.config`.

        Returns:
            None; or why there is nothing to lift, where that is known by now.
        """
        torch._dynamo.reset()
        gc.collect()
        self._options, self._record = name, Record()
        self._run = torch.compile(
            self._model, fullgraph=True, dynamic=False, backend=backend_of(self._record, options)
        )
        try:
            with watching(self._record), torch.no_grad():
                self._run(*self._inputs)
        except NotYet:
            return self._repeated()
        except Exception as error:  # noqa: BLE001 - a compiler raises anything; it is told
            inner = _innermost(error)
            if isinstance(inner, NotYet):
                return self._repeated()
            return self._failed("compile_failed", f"{type(inner).__name__}: {_line(inner)}")
        return self._failed("not_compiled", "torch.compile ran the model without Inductor")

    def _repeated(self) -> Lifted | None:
        """Tell that the code is that of an earlier set of options; None where it is new."""
        code = needed(self._record.codes[-1]) if self._record.codes else ""
        first = self._seen.setdefault(code, self._options)
        if first == self._options:
            return None
        return self._failed("same_code", f"the same as with the options {first}")

    def finish(self) -> Lifted:
        """Run what was compiled once, and tell all that is known of it."""
        assert self._run is not None, "compile first"
        self._record.may_run = True
        returned: object = None
        try:
            self._bring_back()
            with torch.no_grad():
                returned = self._run(*self._inputs)
            return self._lifted(returned)
        except _Refused as refusal:
            return self._failed(*refusal.args)
        except Exception as error:  # noqa: BLE001 - generated code may fail; it is told
            return self._failed("run_failed", f"{type(error).__name__}: {_line(error)}")
        finally:
            returned = None
            self._record.results.clear()
            self._put_away()

    def _put_away(self) -> None:
        """Free the memory of inputs: compiling asks for their sizes alone. The model stays."""
        for tensor in self._drawn:
            tensor.untyped_storage().resize_(0)
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _bring_back(self) -> None:
        """Give inputs memory again. Which numbers are there decides nothing."""
        for tensor in self._drawn:
            tensor.untyped_storage().resize_(tensor.numel() * tensor.element_size())
            tensor.fill_(0.5)

    def _lifted(self, returned: object) -> Lifted:
        record = self._record
        if not record.codes:
            raise _Refused("not_compiled", "torch.compile ran the model without Inductor")
        several = isinstance(returned, list | tuple)
        values = list(returned) if isinstance(returned, list | tuple) else [returned]
        module = generated_module()
        if any(isinstance(value, torch.Tensor) for value in vars(module).values()):
            raise _Refused("constants", "the generated code holds tensors of its own")
        return Lifted(
            options=self._options,
            code=needed(record.codes[-1]),
            arguments=tuple(self._argument(value) for value in record.arguments),
            outputs=tuple(self._output(value) for value in values),
            several=several,
            kernels=kernels_of(module),
            torch=str(torch.__version__),
            device=self._device.type,
            vector_bits=record.vector_bits,
        )

    def _failed(self, reason: str, detail: str) -> Lifted:
        return Lifted(
            options=self._options,
            reason=reason,
            detail=detail[:_DETAIL_CHARACTERS],
            kernels={},
            torch=str(torch.__version__),
        )

    def _argument(self, value: object) -> Argument:
        """Find out where an argument of the generated code comes from."""
        if not isinstance(value, torch.Tensor):
            raise _Refused("symbolic_size", f"the generated code is given {value!r}")
        for source, tensor in self._sources():
            if _same(tensor, value):
                return source
        shape = tuple(value.shape)
        raise _Refused("unknown_argument", f"a tensor of {shape} is no input and no state")

    def _output(self, value: object) -> Output:
        """Find an output of the model: a result of the generated code, or what it was given."""
        if not isinstance(value, torch.Tensor):
            raise _Refused("no_tensor", f"the model returns a {type(value).__name__}")
        for index, result in enumerate(self._record.results):
            if isinstance(result, torch.Tensor) and _same(result, value):
                return Output(result=index)
        for source, tensor in self._sources():
            if _same(tensor, value):
                return Output(source=source)
        view = (tuple(value.shape), tuple(value.stride()), int(value.storage_offset()))
        for index, result in enumerate(self._record.results):
            if isinstance(result, torch.Tensor) and _lies_in(value, result):
                return Output(result=index, view=view)
        for source, tensor in self._sources():
            if _lies_in(value, tensor):
                return Output(source=source, view=view)
        raise _Refused("unknown_output", "an output is no result of the generated code")

    def _sources(self) -> Iterator[tuple[Argument, torch.Tensor]]:
        """The tensors that the generated code may be given."""
        for index, value in enumerate(self._inputs):
            if isinstance(value, torch.Tensor):
                yield Argument(input=index, is_number=index in self._numbers), value
        for expression, tensor in _tensors_of(self._model, "self"):
            yield Argument(state=expression), tensor


def _of_their_own(inputs: list[object], device: torch.device) -> list[torch.Tensor]:
    """Return inputs whose numbers decide nothing, in memory that is theirs alone.

    A single number is read while the reference is compiled.
    """
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    places = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [
        tensor
        for tensor, place in zip(tensors, places, strict=True)
        if tensor.is_floating_point()
        and tensor.dim()
        and tensor.device.type == device.type
        and places.count(place) == 1
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    ]


def _placed(value: object, device: torch.device, dtype: torch.dtype) -> object:
    """An input as the generated code is to see it; a float becomes an argument that can vary."""
    if isinstance(value, torch.Tensor):
        return value.to(device, dtype if value.is_floating_point() else value.dtype)
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return value


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        one.data_ptr() == other.data_ptr()
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.dtype == other.dtype
        and one.device == other.device
    )


def _tensors_of(model: nn.Module, expression: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a module and its parts, each with the expression that gives it."""
    for name, tensor in (*model._parameters.items(), *model._buffers.items(), *vars(model).items()):
        if isinstance(tensor, torch.Tensor):
            yield f"{expression}.{name}", tensor
    for name, part in model._modules.items():
        if part is None:
            continue
        if isinstance(model, nn.ModuleDict):
            place = f"{expression}[{name!r}]"
        elif isinstance(model, nn.Sequential | nn.ModuleList) and name.isdigit():
            place = f"{expression}[{name}]"
        elif name.isidentifier():
            place = f"{expression}.{name}"
        else:
            place = f"{expression}.get_submodule({name!r})"
        yield from _tensors_of(part, place)


def _lies_in(value: torch.Tensor, other: torch.Tensor) -> bool:
    """Tell whether a tensor is a view of another one's memory."""
    return (
        value.dtype == other.dtype
        and value.device == other.device
        and value.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    )


def _innermost(error: BaseException) -> BaseException:
    """The error that a compiler wrapped into its own."""
    while True:
        inner = getattr(error, "inner_exception", None) or error.__cause__
        if inner is None:
            return error
        error = inner


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"
