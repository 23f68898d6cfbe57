"""Builds terms for the values of a graph while it is read, broadcasting as torch does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from operators.sketches.patterns.axes import Placed, aligned, contiguous_strides, grouped
from operators.sketches.patterns.expressions import Load, Terms
from problems.graph import OperatorGraph, TensorSpec

__all__ = ["Builder", "NotCoveredError"]

_LOADED = frozenset({"float32", "bool", "int64"})
_HALVES = frozenset({"float16", "bfloat16"})


class NotCoveredError(Exception):
    """The graph holds something that the sketches over terms do not cover."""


@dataclass(slots=True, kw_only=True)
class Builder:
    """The values of a graph read so far.

    Attributes:
        graph: The graph.
        sizes: Sizes of the axes, outermost first.
        largest: Dimensions of the first of the largest shapes.
        shifted: Variances by one pass over x - m, m an element of the row, not by two passes.
        halves: Tensors in float16 and bfloat16 are taken too, as if they were in float32.
        terms: All terms.
        values: Where each value lies, by name.
        updates: Buffers written besides.
        counters: Integer buffers that grow by one.
    """

    graph: OperatorGraph
    sizes: tuple[int, ...]
    largest: tuple[tuple[int, ...], ...]
    shifted: bool
    halves: bool = False
    terms: Terms = field(default_factory=Terms)
    values: dict[str, Placed] = field(default_factory=dict)
    updates: list[tuple[str, Placed]] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)

    def takes(self, dtype: str) -> bool:
        """Tell whether tensors of a dtype are loaded."""
        return dtype in _LOADED or (self.halves and dtype in _HALVES)

    def value(self, name: str) -> Placed:
        """Return where a value lies; an input of fewer elements has no place yet.

        Raises:
            NotCoveredError: It is no tensor, or of a dtype that is not covered.
        """
        if name in self.values:
            return self.values[name]
        if name.startswith("node"):
            raise NotCoveredError(name)
        spec = self.graph.spec(name)
        if not isinstance(spec, TensorSpec) or not self.takes(spec.dtype):
            raise NotCoveredError(name)
        if spec.numel != math.prod(self.sizes):
            if spec.numel == 1:
                return self.loaded(name, tuple(() for _ in spec.shape))
            return Placed(term=-1, value=name, shape=spec.shape)
        dims = grouped(range(len(self.sizes)), self.sizes, spec.shape)
        if dims is None:
            raise NotCoveredError(name)
        return self.loaded(name, dims)

    def loaded(self, name: str, dims: Sequence[tuple[int, ...]]) -> Placed:
        """Return an input, parameter or buffer, placed along given axes."""
        spec = self.graph.spec(name)
        assert isinstance(spec, TensorSpec)
        if not self.takes(spec.dtype):
            raise NotCoveredError(name)
        strides = contiguous_strides(dims, self.sizes)
        load = Load(value=name, dtype=spec.dtype, strides=strides)
        return Placed(term=self.terms.load(load), dims=tuple(dims), value=name)

    def along(self, x: Placed, dims: Sequence[tuple[int, ...]]) -> Placed:
        """Return an input along given dimensions; a vector may be repeated along the outer axes.

        Raises:
            NotCoveredError: It is computed, or its elements are no inner axes of the dimensions.
        """
        spec = self.spec(x)
        axes = [axis for group in dims for axis in group]
        while math.prod(self.sizes[axis] for axis in axes) > spec.numel:
            del axes[0]
        whole = len(axes) == sum(map(len, dims))
        if grouped(axes, self.sizes, [spec.numel]) is None or not (whole or len(x.shape) == 1):
            raise NotCoveredError(x.value)
        return Placed(term=self.loaded(x.value, [tuple(axes)]).term, dims=tuple(dims))

    def spec(self, x: Placed) -> TensorSpec:
        """Return the spec of an input, parameter or buffer that a value is all of.

        Raises:
            NotCoveredError: The value is computed.
        """
        spec = self.graph.spec(x.value) if x.value else None
        if not isinstance(spec, TensorSpec):
            raise NotCoveredError("a computed value in place of an input")
        return spec

    def constant(self, value: float) -> Placed:
        """Return a number."""
        return Placed(term=self.terms.constant(value))

    def call(self, op: str, *operands: Placed | float) -> Placed:
        """Return a pointwise function of values, broadcast against each other."""
        placed, dims = self.broadcast(
            [o if isinstance(o, Placed) else self.constant(o) for o in operands]
        )
        return Placed(term=self.terms.call(op, *(o.term for o in placed)), dims=dims)

    def broadcast(
        self, operands: Sequence[Placed]
    ) -> tuple[list[Placed], tuple[tuple[int, ...], ...]]:
        """Place operands against each other.

        Returns:
            The operands, each with a term, and the dimensions of the result.

        Raises:
            NotCoveredError: They cannot be placed.
        """
        rank = max((len(o.dims) for o in operands if o.term >= 0), default=0)
        dims: list[tuple[int, ...]] = [()] * rank
        for operand in operands:
            for index, axes in enumerate(reversed(operand.dims), 1):
                if axes and dims[rank - index] not in ((), axes):
                    raise NotCoveredError("dimensions that cut across each other")
                dims[rank - index] = axes or dims[rank - index]
        every = [axis for axes in dims for axis in axes]
        if len(every) != len(set(every)):
            raise NotCoveredError("one axis along two dimensions")
        loose = next((o for o in operands if o.term < 0), None)
        if loose is not None and not dims:
            # Only small tensors meet: they are taken to line up with the largest one's last axes.
            dims = list(aligned(loose.shape, self.largest, self.sizes) or ())
        placed = []
        for operand in operands:
            if operand.term >= 0:
                placed.append(operand)
                continue
            where = aligned(operand.shape, dims, self.sizes)
            if where is None:
                raise NotCoveredError(operand.value)
            placed.append(self.loaded(operand.value, where))
        return placed, tuple(dims)

    def dims_of(self, x: Placed, dims: int | list[int] | None) -> list[int]:
        """Return dimension numbers from 0 for torch's `dim` argument; all for None or []."""
        rank = len(x.dims)
        if dims is None or dims == []:
            return list(range(rank))
        listed = dims if isinstance(dims, list) else [dims]
        return [dim % rank for dim in listed] if rank else []

    def count(self, x: Placed, dims: Sequence[int]) -> int:
        """Return how many elements lie along some dimensions."""
        return math.prod(self.sizes[axis] for dim in dims for axis in x.dims[dim])

    def reduce(self, kind: str, x: Placed, dims: Sequence[int], keep: bool = True) -> Placed:
        """Return a reduction over dimensions, of a kind as in `Term`.

        Raises:
            NotCoveredError: The value is not placed, or is constant along a dimension.
        """
        removed = [axis for dim in dims for axis in x.dims[dim]]
        if x.term < 0 or not set(removed) <= self.terms[x.term].axes:
            raise NotCoveredError("a reduction of a repeated value")
        term = self.terms.reduce(kind, x.term, removed) if removed else x.term
        kept = tuple(() if dim in dims else axes for dim, axes in enumerate(x.dims))
        result = Placed(term=term, dims=kept)
        return result if keep else result.without(dims)

    def mean(self, x: Placed, dims: Sequence[int], keep: bool = True) -> Placed:
        """Return the mean over dimensions."""
        return self.call("quotient", self.reduce("sum", x, dims, keep), self.count(x, dims))

    def viewed(self, x: Placed, shape: Sequence[int]) -> Placed:
        """Return the same elements in another shape.

        Raises:
            NotCoveredError: The shape cuts an axis, or the value is repeated.
        """
        if x.term < 0:
            return Placed(term=-1, value=x.value, shape=tuple(shape))
        if not self.terms[x.term].axes and not any(x.dims):
            return Placed(term=x.term, dims=((),) * len(shape))
        dims = grouped([axis for axes in x.dims for axis in axes], self.sizes, shape)
        if dims is None:
            raise NotCoveredError("a view that cuts an axis")
        return Placed(term=x.term, dims=dims)
