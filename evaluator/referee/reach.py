"""How much of an operation's input is needed for a share of its output.

Most operations use every input element equally often, and the share is carried over. Listed here
are those that do not: windows that skip, gathers, crops and pads, masks, triangles, operations
that look at a tensor's shape alone, and those that may stop early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import DomainKind

__all__ = ["Reach", "op_name"]

_SHAPE_ONLY = (
    "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like",
    "new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided", "sym_size",
)  # fmt: skip
_OVERWRITES = ("copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_")
_GATHERS = {
    "embedding": 1, "index": 1, "index_select": 1, "gather": 1, "take": 1, "nll_loss_forward": 1,
    "nll_loss2d_forward": 1, "masked_select": 1, "upsample_nearest1d": 1, "upsample_nearest2d": 1,
    "upsample_nearest3d": 1, "_upsample_nearest_exact1d": 1, "_upsample_nearest_exact2d": 1,
    "_upsample_nearest_exact3d": 1, "upsample_linear1d": 2, "upsample_bilinear2d": 4,
    "upsample_trilinear3d": 8, "upsample_bicubic2d": 16, "grid_sampler_2d": 4, "grid_sampler_3d": 8,
}  # fmt: skip
"""Operations that read at most so many elements of their first input for each output element."""
_UNEVEN = (
    "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "copy_", "tril", "triu",
)  # fmt: skip
_REPLACES = ("slice_scatter", "select_scatter", "diagonal_scatter", "scatter", "index_put",
             "index_copy", "as_strided_scatter")  # fmt: skip
"""Operations that keep of their first input what they do not overwrite."""
_MAY_STOP = ("cumprod", "prod", "any", "all", "logcumsumexp", "searchsorted", "bucketize")
_SELECTS = ("where", "masked_fill", "masked_fill_", "masked_scatter")
_SECTOR = 8
"""Neighbouring elements that memory moves together: 32 bytes of float32."""
_WHOLE = {"mm": 1, "bmm": 1, "mv": 1, "addmm": 2, "baddbmm": 2, "convolution": 1}
"""The operand that every row of the output needs as a whole; strictly, columns may be wanted."""
_VECTOR_PRODUCTS = ("dot", "vdot", "mv", "mm", "bmm", "addmv", "addmm", "baddbmm")
_POOLS = (
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What the operations of one graph need of their inputs.

    Attributes:
        graph: The graph.
        kinds: Domains of inputs by name, where known.
        strict: Whether to leave out what a correct program may do without because of the data.
        zeroed: Values with zeros in places that a program may know; see `triangles.with_zeros`.
    """

    graph: OperatorGraph
    kinds: Mapping[str, DomainKind]
    strict: bool = False
    zeroed: frozenset[str] = frozenset()

    def share(self, node: Node, index: int, spec: TensorSpec, wanted: float) -> float:
        """Return the share of an input's elements that is needed, at least; 0 to 1.

        Args:
            node: The operation.
            index: Which of its inputs.
            spec: That input.
            wanted: Share of the operation's output that is wanted, above 0 to 1.
        """
        name = op_name(node)
        if _looks_at_no_value(name, index) or (self.strict and self._may_skip(node, index)):
            return 0.0
        outputs = max(output.numel for output in node.outputs)
        if index == 0 and name == "nll_loss_forward" and self._is_log_softmax(node.inputs[0]):
            return 1.0  # One element of each row, for which the whole row had to be read.
        if index == 0 and name in _GATHERS:
            return min(wanted * outputs * _GATHERS[name] / spec.numel, 1.0)
        if not self.strict and name in ("tril", "triu"):
            return wanted  # What a product computes for nothing it still reads its operands for.
        if not self.strict and index == _WHOLE.get(name):
            return 1.0
        used = self._used(node, index, spec)
        if name in _UNEVEN or name in _REPLACES:
            # All that is wanted may lie in what the other inputs give.
            return max(wanted * outputs - (outputs - used * spec.numel), 0.0) / spec.numel
        return used * wanted

    def place(self, node: Node, index: int, spec: TensorSpec) -> TensorSpec | None:
        """Return where an input ends up in the output, if the operation puts inputs together."""
        name = op_name(node)
        if name not in ("cat", "stack"):
            return None
        (output,) = node.outputs
        given = node.arguments[1] if len(node.arguments) > 1 else node.keywords.get("dim", 0)
        along = int(given) % len(output.shape)
        before = [self.graph.spec(value) for value in node.inputs[:index]]
        skipped = [s for s in before if isinstance(s, TensorSpec) and s.numel]
        start = sum(1 if name == "stack" else s.shape[along] for s in skipped)
        shape = list(output.shape)
        shape[along] = 1 if name == "stack" else spec.shape[along]
        return replace(
            output, shape=tuple(shape), offset=output.offset + start * output.stride[along]
        )

    def _used(self, node: Node, index: int, spec: TensorSpec) -> float:
        """Share of an input that is used for the whole output."""
        name = op_name(node)
        if name in ("tril", "triu"):
            return _triangle(node, spec)
        if name == "constant_pad_nd":
            return _uncropped(node.arguments[1], spec)
        if name in _REPLACES and index == 0:
            return max(1.0 - self._replaced(node) / spec.numel, 0.0)
        if index == 0 and name in _POOLS:
            return _pooled(node, spec)
        if index == 0 and name in ("convolution", "_convolution"):
            return self._convolved(node, spec)
        if index in (1, 2) and name.startswith("_scaled_dot_product"):
            return self._attended(node, spec)
        return 1.0

    def _is_log_softmax(self, value: str) -> bool:
        """Tell whether a value is the logarithm of a softmax over the classes."""
        if not value.startswith("node"):
            return False
        producer = self.graph.nodes[int(value.removeprefix("node").partition(".")[0])]
        return op_name(producer) == "_log_softmax" and producer.arguments[1] in (1, -1)

    def _may_skip(self, node: Node, index: int) -> bool:
        """Tell whether the data may make an input needless, in part or as a whole."""
        name = op_name(node)
        if name == "nll_loss_forward" and self._is_log_softmax(node.inputs[0]):
            return False
        if name in _MAY_STOP or (index == 0 and name in _GATHERS):
            return True
        if name in _SELECTS:
            return not self._is_mask(node.inputs[index])
        if name.startswith("_scaled_dot_product"):
            return index in (1, 2) and len(node.inputs) > 3
        if name in _VECTOR_PRODUCTS:
            first = len(node.inputs) - 2
            factor = node.inputs[2 * first + 1 - index] if index >= first else ""
            return bool(factor) and self._is_flat_with_zeros(factor)
        if name in ("div", "div_"):
            return index == 1 and self._has_zeros(node.inputs[0])
        return name in ("mul", "mul_") and any(map(self._has_zeros, _others(node, index)))

    def _has_zeros(self, value: str) -> bool:
        """Tell whether a factor may be zero in places that are known before another is read."""
        return value in self.zeroed or self._is_mask(value)

    def _is_flat_with_zeros(self, value: str) -> bool:
        """Tell whether an operand is a matrix with zeros made into a vector: a sum of products."""
        spec = self.graph.spec(value)
        if value not in self.zeroed or not isinstance(spec, TensorSpec):
            return False
        return len(spec.shape) == 1 or 1 in spec.shape[-2:]

    def _is_mask(self, value: str) -> bool:
        spec = self.graph.spec(value)
        return self.kinds.get(value) is DomainKind.MASK or (
            isinstance(spec, TensorSpec) and spec.dtype == "bool"
        )

    def _replaced(self, node: Node) -> int:
        """Elements that an operation overwrites, at most."""
        specs = [self.graph.spec(value) for value in node.inputs[1:]]
        return max((spec.numel for spec in specs if isinstance(spec, TensorSpec)), default=0)

    def _convolved(self, node: Node, spec: TensorSpec) -> float:
        """Share of an image that a convolution looks at."""
        sizes, spatial = spec.shape[2:], len(spec.shape) - 2
        weight = self.graph.spec(node.inputs[1])
        if not isinstance(weight, TensorSpec):
            return 1.0
        part = _in_dimensions(node.arguments, spatial)
        windows = list(zip(weight.shape[2:], part(3, 1), part(4, 0), part(5, 1), strict=True))
        outputs = node.outputs[0].shape[2:]
        if not node.arguments[6]:
            return _covered(sizes, outputs, windows)
        return prod(
            _heard(size, output, window) / size
            for size, output, window in zip(sizes, outputs, windows, strict=True)
        )

    def _attended(self, node: Node, spec: TensorSpec) -> float:
        """Causal attention looks at no key behind the last query."""
        query = self.graph.spec(node.inputs[0])
        causal = any(argument is True for argument in node.arguments)
        if not causal or not isinstance(query, TensorSpec):
            return 1.0
        return min(query.shape[-2] / spec.shape[-2], 1.0)


def op_name(node: Node) -> str:
    """Return the name without namespace and overload: "relu" of "aten.relu.default"."""
    return node.op.split(".")[1] if "." in node.op else node.op


def _others(node: Node, index: int) -> list[str]:
    """Names of a node's other inputs."""
    return [value for other, value in enumerate(node.inputs) if other != index]


def _looks_at_no_value(name: str, index: int) -> bool:
    return name in _SHAPE_ONLY or (index == 0 and name in _OVERWRITES)


def _triangle(node: Node, spec: TensorSpec) -> float:
    """Share of a matrix that tril or triu keeps."""
    rows, columns = spec.shape[-2:]
    diagonal = int(node.arguments[1]) if len(node.arguments) > 1 else 0
    below = np.clip(np.arange(rows) + diagonal + (op_name(node) == "tril"), 0, columns)
    kept = int(below.sum())
    return (kept if op_name(node) == "tril" else rows * columns - kept) / (rows * columns)


def _uncropped(pads: Sequence[int], spec: TensorSpec) -> float:
    """Share of a tensor that negative padding leaves."""
    sizes = list(spec.shape)
    for number in range(len(pads) // 2):
        low, high = pads[2 * number : 2 * number + 2]
        sizes[-1 - number] = max(sizes[-1 - number] + min(low, 0) + min(high, 0), 0)
    return prod(sizes) / spec.numel


def _pooled(node: Node, spec: TensorSpec) -> float:
    """Share of an image that the windows of a pooling cover."""
    spatial = int(next(digit for digit in op_name(node) if digit.isdecimal()))
    part = _in_dimensions(node.arguments, spatial)
    kernel = part(1, 1)
    stride = part(2, 0) if len(node.arguments) > 2 and node.arguments[2] else kernel
    is_average = op_name(node).startswith("avg")
    dilation = [1] * spatial if is_average else part(4, 1)
    return _covered(
        spec.shape[-spatial:],
        node.outputs[0].shape[-spatial:],
        list(zip(kernel, stride, part(3, 0), dilation, strict=True)),
    )


def _in_dimensions(arguments: Sequence[Any], spatial: int) -> Callable[[int, int], list[int]]:
    """Return what reads one argument as a list with one number for each spatial dimension."""

    def part(index: int, default: int) -> list[int]:
        value = arguments[index] if index < len(arguments) else default
        values = [int(v) for v in value] if isinstance(value, list) else [int(value)]
        return values * spatial if len(values) == 1 else values

    return part


def _covered(
    sizes: Sequence[int], outputs: Sequence[int], windows: Sequence[tuple[int, int, int, int]]
) -> float:
    """Share of the positions that windows (kernel, stride, padding, dilation) look at."""
    last = len(sizes) - 1
    return prod(
        _seen(size, output, window, _SECTOR if number == last else 1) / size
        for number, (size, output, window) in enumerate(zip(sizes, outputs, windows, strict=True))
    )


def _seen(size: int, output: int, window: tuple[int, int, int, int], sector: int) -> int:
    """Positions of one dimension that move because some window looks at them.

    Memory moves in sectors: a gap is left out as far as it can hold whole ones.
    """
    kernel, stride, padding, dilation = window
    seen = np.zeros(size, dtype=np.bool_)
    starts = np.arange(output) * stride - padding
    for tap in range(kernel):
        positions = starts + tap * dilation
        seen[positions[(positions >= 0) & (positions < size)]] = True
    (places,) = np.nonzero(seen)
    if not len(places):
        return 0
    # The gap at the end of a row and the one at the start of the next are one gap.
    gaps = np.diff(places, append=places[0] + size) - 1
    return size - int((gaps // sector * sector).sum())


def _heard(size: int, output: int, window: tuple[int, int, int, int]) -> int:
    """Input positions of one dimension of a transposed convolution that reach its output."""
    kernel, stride, padding, dilation = window
    heard = np.zeros(size, dtype=np.bool_)
    starts = np.arange(size) * stride - padding
    for tap in range(kernel):
        positions = starts + tap * dilation
        heard |= (positions >= 0) & (positions < output)
    return int(np.count_nonzero(heard))
