"""The reference worker: draws inputs, and computes what they should give."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from archives.evaluation import Status
from evaluator.wire import ValueSpec, encode_value, layout
from evaluator.worker.domains import infer_domains
from evaluator.worker.failures import Failure, describe
from evaluator.worker.legs import Leg, write_outputs
from evaluator.worker.program import load_program
from evaluator.worker.serve import Handler
from evaluator.worker.state import (
    BufferKeeper,
    publish_state,
    redraw,
    state_specs,
    state_tensors,
    widen_plain_tensors,
)
from evaluator.worker.stock import Reservoir
from evaluator.worker.tensors import Memory, read, spec_of, write
from evaluator.worker.variants import vary
from problems.problem import Domain, DomainKind

__all__ = ["ReferenceWorker"]

_FILE = "problem.py"
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(slots=True, kw_only=True)
class _Opened:
    """The open problem.

    Attributes:
        get_inputs: The problem's own.
        dtype: Of floating-point inputs and parameters.
        model: In training mode, as constructed.
        exact: Its copy in float64, made when first needed; None once it has proved impossible.
        keeper: Puts the model's buffers back.
        constructed: The state as constructed.
        inputs: Specs of an input set, offsets included.
        domains: One for each input.
    """

    get_inputs: Callable[[], Sequence[object]]
    dtype: torch.dtype
    model: nn.Module
    keeper: BufferKeeper
    constructed: dict[str, torch.Tensor]
    inputs: tuple[ValueSpec, ...] = ()
    domains: Sequence[Domain] = ()
    exact: nn.Module | None = None
    exact_keeper: BufferKeeper | None = None
    exact_fails: bool = False


class ReferenceWorker:
    """Serves the ops of the reference worker.

    Args:
        memory: The shared memories "inputs", "state" and "expected".
    """

    def __init__(self, memory: dict[str, Memory]) -> None:
        self._memory = memory
        self._leg = Leg()
        self._opened: _Opened | None = None
        self._reservoirs: list[Reservoir] = []
        self.handlers: dict[str, Handler] = {
            "open": self._open,
            "draw": self._draw,
            "stock": self._stock,
            "mix": self._mix,
            "weights": self._weights,
            "expect": self._expect,
            "call": self._call,
            "leg": self._run_leg,
            "ship": self._ship,
        }

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the problem's code raised into a failure."""
        building = request.get("op") == "open"
        status = Status.BUILD_ERROR if building else Status.RUNTIME_ERROR
        return describe(error, file=_FILE, status=status, reason="problem_raised")

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        names = ("Model", "get_inputs", "get_init_inputs")
        program = load_program(request["source"], "evokernel_problem", _FILE, names)
        seed = request["seed"]
        torch.manual_seed(seed)
        init = tuple(program["get_init_inputs"]())
        try:
            encoded = encode_value(init)
        except TypeError as error:
            raise Failure(
                Status.BUILD_ERROR,
                "init_not_plain",
                f"get_init_inputs() may return numbers, texts, lists and tuples: {error}",
            ) from error
        torch.manual_seed(seed)
        model = program["Model"](*init)
        dtype = _DTYPES[request["precision"]]
        model = model.to(dtype)
        opened = _Opened(
            get_inputs=program["get_inputs"],
            dtype=dtype,
            model=model,
            keeper=BufferKeeper(model, plain=True),
            constructed={name: t.clone() for name, t in state_tensors(model).items()},
        )
        self._opened = opened
        sample = self._sample(seed)
        opened.inputs = _set_specs(sample)
        outputs = self._forward(sample)
        opened.domains = _stated(request.get("domains") or ()) or infer_domains(
            [sample, self._sample(seed + 1)], lambda number, value: self._runs_on(number, value)
        )
        if len(opened.domains) != len(sample):
            raise Failure(
                Status.BUILD_ERROR,
                "domain_count",
                f"{len(opened.domains)} domains are stated for {len(sample)} inputs",
            )
        return {
            "inputs": [spec.to_json() for spec in opened.inputs],
            "init": encoded,
            "state": [spec.to_json() for spec in state_specs(model)],
            **_output_specs(outputs),
            "domains": [
                {"kind": domain.kind, "upper": domain.upper, "inferred": domain.inferred}
                for domain in opened.domains
            ],
        }

    def _draw(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        values = self._sample(request["seed"])
        generator = torch.Generator().manual_seed(request["seed"])
        varied = [
            vary(value, domain, request["variant"], generator)
            for value, domain in zip(values, opened.domains, strict=True)
        ]
        buffer = self._memory["inputs"].buffer()
        for spec, (value, _) in zip(opened.inputs, varied, strict=True):
            write(buffer, request["base"], spec, value)
        return {"applied": any(applied for _, applied in varied)}

    def _stock(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        draws = [self._sample(request["seed"] + number) for number in range(request["sets"])]
        self._reservoirs = [
            Reservoir([draw[number] for draw in draws], domain)
            for number, domain in enumerate(opened.domains)
        ]
        return {}

    def _mix(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        generator = torch.Generator().manual_seed(request["seed"])
        buffer = self._memory["inputs"].buffer()
        for base in request["bases"]:
            for spec, reservoir in zip(opened.inputs, self._reservoirs, strict=True):
                value = reservoir.mix(read(buffer, base, spec), generator)
                if not isinstance(value, torch.Tensor):
                    write(buffer, base, spec, value)
        return {}

    def _weights(self, request: dict[str, Any]) -> dict[str, Any]:
        opened = self._problem()
        if request["seed"] is None:
            for name, tensor in state_tensors(opened.model).items():
                tensor.copy_(opened.constructed[name])
        else:
            generator = torch.Generator().manual_seed(request["seed"])
            redraw(opened.constructed, opened.model, generator)
        opened.keeper.keep()
        opened.exact = opened.exact_keeper = None
        publish_state(opened.model, self._memory["state"])
        return {}

    def _expect(self, request: dict[str, Any]) -> dict[str, Any]:
        values = self._inputs(request["base"])
        exact = self._in_float64(values)
        outputs = exact if exact is not None else self._forward(values)
        widened = _map_tensors(outputs, _to_float64)
        written = write_outputs(self._memory["expected"], request["at"], widened)
        return {**written, "float64": exact is not None}

    def _call(self, request: dict[str, Any]) -> dict[str, Any]:
        outputs = self._forward(self._inputs(request["base"]))
        return write_outputs(self._memory["expected"], request["at"], outputs)

    def _run_leg(self, request: dict[str, Any]) -> dict[str, Any]:
        if not request["bases"]:
            return {}
        opened = self._problem()
        opened.keeper.put_back()
        memory = self._memory["inputs"]
        return self._leg.run(opened.model, memory, opened.inputs, request["bases"])

    def _ship(self, request: dict[str, Any]) -> dict[str, Any]:
        output = self._leg.output(request["call"])
        return write_outputs(self._memory["expected"], request["at"], output)

    def _problem(self) -> _Opened:
        if self._opened is None:
            raise Failure(Status.RUNTIME_ERROR, "not_open", "no problem is open")
        return self._opened

    def _sample(self, seed: int) -> list[object]:
        """Draw one input set; only floating tensors take the problem's precision."""
        opened = self._problem()
        torch.manual_seed(seed)
        values = opened.get_inputs()
        return [_cast(value, opened.dtype) for value in values]

    def _inputs(self, base: int) -> list[object]:
        buffer: ctypes.Array[ctypes.c_char] = self._memory["inputs"].buffer()
        return [read(buffer, base, spec) for spec in self._problem().inputs]

    def _forward(self, values: Sequence[object]) -> object:
        """Call the model; its buffers are what they were before."""
        opened = self._problem()
        outputs = opened.model(*values)
        opened.keeper.put_back()
        return outputs

    def _in_float64(self, values: Sequence[object]) -> object | None:
        """Call the model's copy in float64; None where it does not run in float64."""
        opened = self._problem()
        if opened.exact_fails:
            return None
        if opened.exact is None:
            opened.exact = copy.deepcopy(opened.model).double()
            widen_plain_tensors(opened.exact)
            opened.exact_keeper = BufferKeeper(opened.exact, plain=True)
        assert opened.exact_keeper is not None
        try:
            outputs: object = opened.exact(*[_cast(value, torch.float64) for value in values])
        except (RuntimeError, TypeError):
            # A dtype is written into the model itself: its own precision has to do.
            opened.exact_fails = True
            return None
        opened.exact_keeper.put_back()
        return outputs

    def _runs_on(self, number: int, value: torch.Tensor) -> bool:
        """Tell whether the model gives finite outputs with one input replaced."""
        values = self._sample(0)
        values[number] = value
        try:
            outputs = self._forward(values)
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError):
            return False
        items = outputs if isinstance(outputs, tuple | list) else [outputs]
        return all(bool(item.isfinite().all()) for item in items if isinstance(item, torch.Tensor))


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


def _cast(value: object, dtype: torch.dtype) -> object:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def _to_float64(value: torch.Tensor) -> torch.Tensor:
    return value.double() if value.is_floating_point() else value


def _map_tensors(outputs: object, function: Callable[[torch.Tensor], torch.Tensor]) -> object:
    if isinstance(outputs, torch.Tensor):
        return function(outputs)
    if isinstance(outputs, tuple | list):
        return tuple(_map_tensors(item, function) for item in outputs)
    return outputs
