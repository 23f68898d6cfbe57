"""An operator graph in words: one line for each value and each operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operators.llm.sections import inline
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["graph_lines"]

_REDUCTION = ("", "dim", "keepdim")
_POOL = ("", "kernel", "stride", "padding")
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "argmax": _REDUCTION,
    "argmin": _REDUCTION,
    "avg_pool1d": _POOL,
    "avg_pool2d": (*_POOL, "ceil_mode", "count_include_pad"),
    "avg_pool3d": (*_POOL, "ceil_mode", "count_include_pad"),
    "batch_norm": ("", "weight", "bias", "mean", "variance", "training", "momentum", "eps"),
    "cat": ("", "dim"),
    "clamp": ("", "min", "max"),
    "clamp_min": ("", "min"),
    "convolution": (
        "", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding",
        "groups",
    ),
    "cumprod": ("", "dim"),
    "cumsum": ("", "dim"),
    "elu": ("", "alpha", "scale", "input_scale"),
    "expand": ("", "shape"),
    "flip": ("", "dims"),
    "group_norm": ("", "weight", "bias", "batch", "channels", "elements", "groups", "eps"),
    "hardtanh": ("", "min", "max"),
    "layer_norm": ("", "shape", "weight", "bias", "eps"),
    "leaky_relu": ("", "negative_slope"),
    "log_softmax": ("", "dim", "half_to_float"),
    "max": _REDUCTION,
    "max_pool2d_with_indices": (*_POOL, "dilation", "ceil_mode"),
    "max_pool3d_with_indices": (*_POOL, "dilation", "ceil_mode"),
    "mean": _REDUCTION,
    "min": _REDUCTION,
    "nll_loss_forward": ("", "target", "weight", "reduction", "ignore_index"),
    "norm": ("", "p", "dim", "keepdim"),
    "permute": ("", "dims"),
    "pow": ("", "exponent"),
    "select": ("", "dim", "index"),
    "slice": ("", "dim", "start", "end", "step"),
    "softmax": ("", "dim", "half_to_float"),
    "softplus": ("", "beta", "threshold"),
    "squeeze": ("", "dim"),
    "sum": _REDUCTION,
    "transpose": ("", "dim", "dim"),
    "unsqueeze": ("", "dim"),
    "view": ("", "shape"),
}  # fmt: skip
"""Names of positional arguments, "" where none is needed."""


def graph_lines(graph: OperatorGraph) -> tuple[str, ...]:
    """Return what a reference does: its values with shapes and dtypes, then its operations."""
    lines = [f"input{i}: {_spec(spec)}" for i, spec in enumerate(graph.inputs)]
    lines += [f"param:{inline(name)}: {_spec(spec)}" for name, spec in graph.parameters.items()]
    lines += [f"buffer:{inline(name)}: {_spec(spec)}" for name, spec in graph.buffers.items()]
    used = {value for node in graph.nodes for value in node.inputs} | set(graph.outputs)
    lines += [_node(graph, number, node, used) for number, node in enumerate(graph.nodes)]
    returned = ", ".join(inline(value) for value in graph.outputs)
    return (*lines, f"returns {returned}")


def _node(graph: OperatorGraph, number: int, node: Node, used: set[str]) -> str:
    name = _name(node)
    arguments = ", ".join(_arguments(name, node))
    results = ", ".join(_spec(spec) for spec in node.outputs)
    line = f"node{number} = {name}({arguments}) -> {results or 'nothing'}"
    if _shares(graph, node):
        line += ", written in place" if name.endswith("_") else ", a view"
    unused = [
        f"node{number}.{output}"
        for output in range(1, len(node.outputs))
        if f"node{number}.{output}" not in used
    ]
    return f"{line}; {', '.join(unused)} not used" if unused else line


def _name(node: Node) -> str:
    """Name without namespace, overload and marks of the implementation."""
    name = node.op.split(".")[1] if "." in node.op else node.op
    for mark in ("_safe_", "_unsafe_", "_", "native_"):
        name = name.removeprefix(mark)
    return inline(name)


def _arguments(name: str, node: Node) -> Iterator[str]:
    names = _ARGUMENTS.get(name, ())
    for position, argument in enumerate(node.arguments):
        if argument is None:
            continue
        key = names[position] if position < len(names) else ""
        yield f"{key}={_value(argument)}" if key else _value(argument)
    for key, argument in node.keywords.items():
        if key not in ("layout", "device", "pin_memory"):
            yield f"{inline(key)}={_value(argument)}"


def _value(argument: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(argument, dict) and "value" in argument:
        return inline(str(argument["value"]))
    if isinstance(argument, list | tuple):
        return f"[{', '.join(_value(item) for item in argument)}]"
    return inline(str(argument))


def _shares(graph: OperatorGraph, node: Node) -> bool:
    """Whether the first result lives in the memory of something the operation read."""
    if not node.outputs:
        return False
    specs = [graph.spec(value) for value in node.inputs]
    storages = {spec.storage for spec in specs if isinstance(spec, TensorSpec)}
    return node.outputs[0].storage in storages


def _spec(spec: TensorSpec | float | int | bool | None) -> str:
    if not isinstance(spec, TensorSpec):
        return f"the number {spec}" if spec is not None else "None"
    text = f"{spec.dtype} {list(spec.shape)}"
    return text if _is_dense(spec) else f"{text} strides {list(spec.stride)}"


def _is_dense(spec: TensorSpec) -> bool:
    step = 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
