"""An open problem: its model, its inputs, and what the model gives in two precisions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.wire import ValueSpec, encode_value, layout
from evaluator.worker.domains import infer_domains
from evaluator.worker.failures import Failure
from evaluator.worker.program import load_program
from evaluator.worker.state import (
    BufferKeeper,
    convert,
    redraw,
    state_specs,
    state_tensors,
    widen_plain_tensors,
)
from evaluator.worker.tensors import spec_of
from problems.problem import Domain, DomainKind

__all__ = ["PROBLEM_FILE", "OpenedProblem", "map_tensors", "open_problem", "to_float64"]

PROBLEM_FILE = "problem.py"
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_CPU = torch.device("cpu")


@dataclass(slots=True, kw_only=True)
class OpenedProblem:
    """The open problem.

    Attributes:
        get_inputs: The problem's own.
        dtype: Of floating-point inputs and parameters.
        device: Where the model and its inputs are.
        model: In training mode, as constructed.
        keeper: Puts the model's buffers back.
        constructed: The state as constructed.
        inputs: Specs of an input set, offsets included.
        domains: One for each input.
        exact: Its copy in float64, made when first needed; None once it has proved impossible.
        exact_keeper: Puts the copy's buffers back.
        exact_fails: Whether the copy has proved impossible.
    """

    get_inputs: Callable[[], Sequence[object]]
    dtype: torch.dtype
    device: torch.device
    model: nn.Module
    keeper: BufferKeeper
    constructed: dict[str, torch.Tensor]
    inputs: tuple[ValueSpec, ...] = ()
    domains: Sequence[Domain] = ()
    exact: nn.Module | None = None
    exact_keeper: BufferKeeper | None = None
    exact_fails: bool = False

    def sample(self, seed: int) -> list[object]:
        """Draw one input set; only floating tensors take the problem's precision."""
        torch.manual_seed(seed)
        with _on(self.device):
            values = self.get_inputs()
        return [_cast(value, self.dtype, self.device) for value in values]

    def forward(self, values: Sequence[object]) -> object:
        """Call the model; its buffers are what they were before."""
        try:
            outputs: object = self.model(*values)
        finally:
            self.keeper.put_back()
        return outputs

    def set_weights(self, seed: int | None) -> None:
        """Set parameters and buffers: redrawn, or as constructed for None."""
        if seed is None:
            for name, tensor in state_tensors(self.model).items():
                tensor.copy_(self.constructed[name])
        else:
            generator = torch.Generator().manual_seed(seed)
            redraw(self.constructed, self.model, generator)
        self.keeper.keep()
        self.exact = self.exact_keeper = None

    def in_float64(self, values: Sequence[object]) -> object | None:
        """Call the model's copy in float64; None where it does not run in float64.

        Raises:
            torch.OutOfMemoryError: There is no memory for that now.
        """
        if self.exact_fails:
            return None
        if self.exact is None:
            self.exact = copy.deepcopy(self.model).double()
            widen_plain_tensors(self.exact)
            self.exact_keeper = BufferKeeper(self.exact, plain=True)
        assert self.exact_keeper is not None
        try:
            widened = [_cast(value, torch.float64, self.device) for value in values]
            outputs: object = self.exact(*widened)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, TypeError):
            # A dtype is written into the model itself: its own precision has to do.
            self.exact_fails = True
            return None
        self.exact_keeper.put_back()
        return outputs

    def runs_on(self, number: int, value: torch.Tensor) -> bool:
        """Tell whether the model gives finite outputs with one input replaced."""
        values = self.sample(0)
        values[number] = value
        return self.stays_finite(values)

    def stays_finite(self, values: Sequence[object]) -> bool:
        """Tell whether the model runs on an input set and gives finite outputs alone."""
        try:
            outputs = self.forward(values)
        except Exception as error:
            if isinstance(error, torch.OutOfMemoryError) or _is_of_the_device(error):
                raise
            return False
        items = outputs if isinstance(outputs, tuple | list) else [outputs]
        return all(bool(item.isfinite().all()) for item in items if isinstance(item, torch.Tensor))


def _is_of_the_device(error: Exception) -> bool:
    """Whether an error tells of memory or a broken device, not of the numbers that were given."""
    return any(word in str(error) for word in ("CUDA", "CUBLAS", "CUDNN", "memory"))


def open_problem(
    request: dict[str, Any], device: torch.device = _CPU
) -> tuple[OpenedProblem, dict[str, Any]]:
    """Load a problem's module, construct its model and call it once.

    Args:
        request: The fields of the wire's op "open".
        device: Where the model and its inputs are to be.

    Returns:
        The problem, and the reply's fields.

    Raises:
        Failure: The module is not of KernelBench's form.
        Exception: Whatever the module raises.
    """
    names = ("Model", "get_inputs", "get_init_inputs")
    program = load_program(request["source"], "evokernel_problem", PROBLEM_FILE, names)
    seed = request["seed"]
    torch.manual_seed(seed)
    init = tuple(program["get_init_inputs"]())
    encoded = _encoded(init)
    torch.manual_seed(seed)
    dtype = _DTYPES[request["precision"]]
    model = program["Model"](*init)
    conversions = convert(model, device, dtype)
    opened = OpenedProblem(
        get_inputs=program["get_inputs"],
        dtype=dtype,
        device=device,
        model=model,
        keeper=BufferKeeper(model, plain=True),
        constructed={name: t.clone() for name, t in state_tensors(model).items()},
    )
    sample = opened.sample(seed)
    opened.inputs = _set_specs(sample)
    outputs = opened.forward(sample)
    opened.domains = _stated(request.get("domains") or ()) or infer_domains(
        [sample, opened.sample(seed + 1)], opened.runs_on
    )
    if len(opened.domains) != len(sample):
        raise Failure(
            Status.BUILD_ERROR,
            "domain_count",
            f"{len(opened.domains)} domains are stated for {len(sample)} inputs",
        )
    return opened, {
        "inputs": [spec.to_json() for spec in opened.inputs],
        "init": encoded,
        "state": [spec.to_json() for spec in state_specs(model)],
        "conversions": conversions,
        **_output_specs(outputs),
        "domains": [
            {"kind": domain.kind, "upper": domain.upper, "inferred": domain.inferred}
            for domain in opened.domains
        ],
    }


def map_tensors(outputs: object, function: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """Apply a function to each tensor of a model's output."""
    if isinstance(outputs, torch.Tensor):
        return function(outputs)
    if isinstance(outputs, tuple | list):
        return tuple(map_tensors(item, function) for item in outputs)
    return outputs


def to_float64(value: torch.Tensor) -> torch.Tensor:
    """Widen a floating tensor."""
    return value.double() if value.is_floating_point() else value


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Let factories make their tensors on a device; on the CPU nothing is to be done for that."""
    return device if device.type != "cpu" else nullcontext()


def _encoded(init: tuple[object, ...]) -> object:
    """Return what the model is constructed with, for candidates."""
    try:
        return encode_value(init)
    except TypeError as error:
        raise Failure(
            Status.BUILD_ERROR,
            "init_not_plain",
            f"get_init_inputs() may return numbers, texts, lists and tuples: {error}",
        ) from error


def _set_specs(values: Sequence[object]) -> tuple[ValueSpec, ...]:
    """Return the specs of an input set: row-major, one behind the other."""
    specs = []
    for number, value in enumerate(values):
        try:
            specs.append(spec_of(value.contiguous() if isinstance(value, torch.Tensor) else value))
        except TypeError as error:
            raise Failure(
                Status.BUILD_ERROR,
                "input_not_plain",
                f"input {number} of get_inputs() is {error}: expected a dense tensor or a number",
            ) from error
    offsets, _ = layout(specs)
    return tuple(
        ValueSpec(dtype=spec.dtype, shape=spec.shape, stride=spec.stride, offset=offset)
        for spec, offset in zip(specs, offsets, strict=True)
    )


def _output_specs(outputs: object) -> dict[str, Any]:
    items = outputs if isinstance(outputs, tuple | list) else [outputs]
    specs = []
    for item in items:
        if not isinstance(item, torch.Tensor):
            raise Failure(
                Status.BUILD_ERROR,
                "output_not_plain",
                f"forward() returns {type(item).__name__}: expected a tensor or a tuple of them",
            )
        specs.append(spec_of(item.contiguous()).to_json())
    return {"outputs": specs, "tuple": isinstance(outputs, tuple | list)}


def _stated(domains: Sequence[dict[str, Any]]) -> list[Domain]:
    return [
        Domain(kind=DomainKind(domain["kind"]), upper=domain.get("upper")) for domain in domains
    ]


def _cast(value: object, dtype: torch.dtype, device: torch.device) -> object:
    """Move a tensor to the device; a floating one takes the dtype."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, dtype if value.is_floating_point() else value.dtype)
