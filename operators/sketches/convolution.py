"""Sketch of convolutions: direct, blocked in registers over output channels and space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from archives.configuration import Space
from operators.sketches.convolution_text import CONVOLUTION
from operators.sketches.lanes import LANES_TEXT, defines
from operators.sketches.module import Program, local_names, write_module
from operators.sketches.operands import computing, is_result, whole_operand
from operators.sketches.sketch import Sketch
from operators.sketches.windows import Windows, merged
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem

__all__ = ["DIRECT_CONVOLUTION", "Convolution", "find_convolution", "read_convolution"]

_OC_BLOCKS = (1, 2, 4, 6, 8, 12, 14)


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


def find_convolution(graph: OperatorGraph) -> Convolution | None:
    """Return the convolution that the whole graph is, or None."""
    nodes = list(computing(graph).items())
    if len(nodes) != 1 or not is_result(graph, nodes[0][0]):
        return None
    index, node = nodes[0]
    found = read_convolution(graph, index)
    returned = graph.spec(graph.outputs[0])
    x = whole_operand(graph, node.inputs[0])
    if found is None or x is None or not isinstance(returned, TensorSpec):
        return None
    return replace(found, x=x, shape=returned.shape)


def read_convolution(graph: OperatorGraph, index: int) -> Convolution | None:
    """Return what a node convolves, or None if it is no convolution in float32.

    Args:
        graph: The graph.
        index: Number of the node; its input may be any value, its weight and bias must be whole
            inputs or parameters.
    """
    node = graph.nodes[index]
    if node.op != "aten.convolution.default" or not prod(node.outputs[0].shape):
        return None
    x = graph.spec(node.inputs[0])
    weight = whole_operand(graph, node.inputs[1])
    bias = whole_operand(graph, node.inputs[2]) if len(node.inputs) > 2 else None
    if not isinstance(x, TensorSpec) or x.dtype != "float32" or weight is None:
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
        stride=_ints(stride),
        padding=_ints(padding),
        dilation=_ints(dilation),
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


def _ints(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _values(found: Convolution) -> dict[str, int]:
    return {
        "BATCH": found.batch,
        "IC": found.channels[0],
        "OC": found.channels[1],
        "GROUPS": found.groups,
        "TRANSPOSED": int(found.transposed),
    } | found.windows.values()


def _space(found: Convolution) -> Space:
    group = found.channels[1] // found.groups
    return {
        "OC_BLOCK": tuple(b for b in _OC_BLOCKS if b <= max(group, 1)),
        "VECTORS": (1, 2, 3, 4, 6),
        "LANES": (8, 16),
        "FLAT": (0, 1, 2) if found.windows.out[0] > 1 else (0, 1),
        "SPACE_OUTER": (False, True),
        "COPY_INPUT": (False, True),
        "STAGED": (False, True),
    }


def _configuration(found: Convolution) -> dict[str, bool | int | float | str]:
    group = found.channels[1] // found.groups
    block = max(b for b in _OC_BLOCKS if b <= min(8, group))
    return {
        "OC_BLOCK": block,
        "VECTORS": 3 if block == 8 else 4,
        "LANES": 16,
        "FLAT": _flat(found),
        # Images beyond the second cache are passed once, with all weights at hand.
        "SPACE_OUTER": found.channels[0] * prod(found.windows.size) > 2**18,
        # Channels a power of two apart fall into the same few sets of a cache.
        "COPY_INPUT": prod(found.windows.size) % 512 == 0,
        "STAGED": False,
    }


def _flat(found: Convolution) -> int:
    """Rows, planes or the volume as segments: whichever needs least work in whole vectors."""
    windows = found.windows
    phases = windows.stride if found.transposed else (1, 1, 1)
    steps = (1, 1, 1) if found.transposed else windows.stride
    grid = [-(-out // phase) for out, phase in zip(windows.out, phases, strict=True)]
    reach = [
        (kernel - 1) * dilation // (phase * step)
        for kernel, dilation, phase, step in zip(
            windows.kernel, windows.dilation, phases, steps, strict=True
        )
    ]
    height, width = grid[1] + reach[1], grid[2] + reach[2]
    lengths = (
        (grid[0] * grid[1], grid[2]),
        (grid[0], (grid[1] - 1) * width + grid[2]),
        (1, ((grid[0] - 1) * height + grid[1] - 1) * width + grid[2]),
    )
    costs = [segments * _vector_cost(-(-length // 16)) for segments, length in lengths]
    return costs.index(min(costs))


def _vector_cost(vectors: int) -> float:
    """Work of a segment; a tile of one vector keeps the arithmetic units half busy only."""
    return vectors + (0.6 if vectors % 3 == 1 else 0.0)


def _write(problem: Problem, graph: OperatorGraph) -> str | None:
    found = find_convolution(graph)
    names = local_names(problem, graph)
    if found is None or names is None:
        return None
    x, weight = f"{names[found.x]}.data_ptr()", f"{names[found.weight]}.data_ptr()"
    bias = f"{names[found.bias]}.data_ptr()" if found.bias else "None"
    program = Program(
        summary="Direct convolution: a tile of channels and positions is summed in registers.",
        space=_space(found),
        configuration=_configuration(found),
        cpp="\n".join((defines(_values(found)), LANES_TEXT, CONVOLUTION)),
        functions={"convolution_size": "p", "convolution_prepare": "ppp", "convolution": "ppppp"},
        values=tuple(v for v in (found.x, found.weight, found.bias) if v),
        body=(
            "size = ctypes.c_longlong()",
            "KERNELS.convolution_size(ctypes.addressof(size))",
            "work = torch.empty(size.value)",
            f"out = torch.empty({found.shape})",
            'if CONFIG["STAGED"]:',
            f"    KERNELS.convolution_prepare({x}, {weight}, work.data_ptr())",
            f"KERNELS.convolution({x}, {weight}, {bias}, work.data_ptr(), out.data_ptr())",
            "return out",
        ),
    )
    return write_module(problem, graph, program)


DIRECT_CONVOLUTION = Sketch(name="direct-convolution", device="cpu", write=_write)
