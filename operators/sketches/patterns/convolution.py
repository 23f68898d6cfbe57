"""Convolutions, standard and transposed, of one to three dimensions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from operators.sketches.patterns.operands import (
    computing,
    is_result,
    whole_operand,
)
from operators.sketches.patterns.windows import Windows, merged
from problems.graph import Node, OperatorGraph, TensorSpec

__all__ = ["Convolution", "find_convolution", "read_convolution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """One convolution, standard or transposed, all operands dense in memory.

    Attributes:
        x: Value name of the input, (N, C, spatial...).
        weight: Value name of the weight, in torch's layout.
        bias: Value name of the bias, or None.
        batch: N.
        channels: Input and output channels.
        groups: Number of groups.
        transposed: Whether it is a transposed convolution.
        windows: Geometry of the spatial dimensions.
        shape: Shape of the output.
    """

    x: str
    weight: str
    bias: str | None
    batch: int
    channels: tuple[int, int]
    groups: int
    transposed: bool
    windows: Windows
    shape: tuple[int, ...]


def find_convolution(
    graph: OperatorGraph, dtypes: Collection[str] = ("float32",)
) -> Convolution | None:
    """Return the convolution of given dtypes that the whole graph is, or None."""
    nodes = list(computing(graph).items())
    if len(nodes) != 1 or not is_result(graph, nodes[0][0], dtypes):
        return None
    index, node = nodes[0]
    found = read_convolution(graph, index, dtypes)
    returned = graph.spec(graph.outputs[0])
    x = whole_operand(graph, node.inputs[0], dtypes)
    if found is None or x is None or not isinstance(returned, TensorSpec):
        return None
    return replace(found, x=x, shape=returned.shape)


def read_convolution(
    graph: OperatorGraph, index: int, dtypes: Collection[str] = ("float32",)
) -> Convolution | None:
    """Return what a node convolves, or None if it is no convolution of given dtypes.

    Args:
        graph: The graph.
        index: Number of the node; its input may be any value, its weight and bias must be whole
            inputs or parameters.
        dtypes: Names of the dtypes that count.
    """
    node = graph.nodes[index]
    if node.op != "aten.convolution.default" or not prod(node.outputs[0].shape):
        return None
    x = graph.spec(node.inputs[0])
    weight = whole_operand(graph, node.inputs[1], dtypes)
    bias = whole_operand(graph, node.inputs[2], dtypes) if len(node.inputs) > 2 else None
    if not isinstance(x, TensorSpec) or x.dtype not in dtypes or weight is None:
        return None
    if len(node.inputs) > 2 and bias is None:
        return None
    return _described(graph, node, x, weight, bias)


def _described(
    graph: OperatorGraph, node: Node, x: TensorSpec, weight: str, bias: str | None
) -> Convolution | None:
    stride, padding, dilation, transposed, _, groups = node.arguments[3:9]
    weight_spec, out = graph.spec(weight), node.outputs[0]
    dims = len(x.shape) - 2
    if not isinstance(weight_spec, TensorSpec) or not 1 <= dims <= 3:
        return None
    if len(weight_spec.shape) != dims + 2:
        return None
    windows = Windows.of(
        size=x.shape[2:],
        out=out.shape[2:],
        kernel=weight_spec.shape[2:],
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
    return Convolution(
        x=node.inputs[0],
        weight=weight,
        bias=bias,
        batch=x.shape[0],
        channels=(x.shape[1], out.shape[1]),
        groups=int(groups),
        transposed=bool(transposed),
        windows=merged(windows),
        shape=out.shape,
    )
