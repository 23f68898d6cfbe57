"""The operator graph of a problem: what its reference does, as plain data.

Written by `problems.trace` (in a child process, on meta tensors), read by the roofline, the
sketches and the prompts. Everything here converts to and from JSON.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Node", "OperatorGraph", "TensorSpec", "is_constant"]

_CONSTANT = re.compile(r"buffer:constant\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """Shape, type and storage of one tensor.

    Attributes:
        shape: Sizes, outermost first.
        stride: Strides in elements, one for each dimension.
        dtype: Name without "torch.", such as "float32".
        storage: Number of the storage it lives in: equal numbers share memory.
        offset: Offset into the storage, in elements.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    storage: int
    offset: int = 0

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operation of the reference.

    Attributes:
        op: Overload name, such as "aten.relu.default".
        inputs: Names of the values read, in argument order: "input0", "param:weight",
            "buffer:running_mean" or "node3" ("node3.1" for the second output of node 3).
        arguments: All positional arguments in order, as JSON: a value name appears as
            {"value": NAME}, a list of values as a list of those, anything else as itself
            (dtypes, devices and layouts as strings).
        keywords: Keyword arguments, in the same form.
        outputs: One spec for each tensor output.
    """

    op: str
    inputs: tuple[str, ...]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGraph:
    """What the reference computes.

    Attributes:
        inputs: Spec of each element of `get_inputs()`; a plain number for a scalar.
        parameters: Specs of the parameters by name, in registration order.
        buffers: Specs of the buffers by name, in registration order.
        nodes: Operations in the order they ran, views included.
        outputs: Names of the returned values.
    """

    inputs: tuple[TensorSpec | float | int | bool | None, ...]
    parameters: dict[str, TensorSpec]
    buffers: dict[str, TensorSpec]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the graph as JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> OperatorGraph:
        """Rebuild a graph from `to_json`."""
        return cls(
            inputs=tuple(_spec(i) if isinstance(i, dict) else i for i in data["inputs"]),
            parameters={name: _spec(spec) for name, spec in data["parameters"].items()},
            buffers={name: _spec(spec) for name, spec in data["buffers"].items()},
            nodes=tuple(
                Node(
                    op=node["op"],
                    inputs=tuple(node["inputs"]),
                    arguments=tuple(node["arguments"]),
                    keywords=dict(node["keywords"]),
                    outputs=tuple(_spec(spec) for spec in node["outputs"]),
                )
                for node in data["nodes"]
            ),
            outputs=tuple(data["outputs"]),
        )

    def spec(self, value: str) -> TensorSpec | float | int | bool | None:
        """Return the spec of a value by name.

        Args:
            value: "input0", "param:NAME", "buffer:NAME", "node3" or "node3.1".

        Raises:
            KeyError: There is no such value.
        """
        kind, _, name = value.partition(":")
        if kind == "param":
            return self.parameters[name]
        if kind == "buffer":
            return self.buffers[name]
        if value.startswith("input"):
            return self.inputs[int(value.removeprefix("input"))]
        index, _, output = value.removeprefix("node").partition(".")
        return self.nodes[int(index)].outputs[int(output or 0)]


def is_constant(value: str) -> bool:
    """Tell whether a value is a tensor that the model made or keeps otherwise than as state.

    `problems.trace` calls it "buffer:constant0" and so on. No state dict holds it, so a program
    cannot reach it by its name; a model's own buffer of such a name counts as one too.
    """
    return _CONSTANT.fullmatch(value) is not None


def _spec(data: dict[str, Any]) -> TensorSpec:
    return TensorSpec(
        shape=tuple(data["shape"]),
        stride=tuple(data["stride"]),
        dtype=data["dtype"],
        storage=data["storage"],
        offset=data["offset"],
    )
