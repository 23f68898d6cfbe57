"""Operations of torch that are more than pointwise, as terms: reductions and normalisations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operators.sketches.patterns.axes import Placed
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.losses import LOSSES

__all__ = ["COMPOSITES"]

_Rule = Callable[..., Placed | tuple[Placed, ...]]
_Dims = int | list[int] | None


def _softmax(b: Builder, x: Placed, dim: int, half_to_float: bool = False) -> Placed:
    dims = b.dims_of(x, dim)
    power = b.call("exponential", b.call("subtract", x, b.reduce("peak", x, dims)))
    return b.call("quotient", power, b.reduce("sum", power, dims))


def _log_softmax(b: Builder, x: Placed, dim: int, half_to_float: bool = False) -> Placed:
    dims = b.dims_of(x, dim)
    shifted = b.call("subtract", x, b.reduce("peak", x, dims))
    total = b.reduce("sum", b.call("exponential", shifted), dims)
    return b.call("subtract", shifted, b.call("logarithm", total))


def _log_sum_exp(b: Builder, x: Placed, dim: _Dims, keepdim: bool = False) -> Placed:
    dims = b.dims_of(x, dim)
    peak = b.reduce("peak", x, dims)
    # Of an infinite peak nothing is taken away, so that no difference of infinities is NaN.
    endless = b.call("equal", b.call("absolute", peak), math.inf)
    peak = b.call("select", endless, 0.0, peak)
    total = b.reduce("sum", b.call("exponential", b.call("subtract", x, peak)), dims)
    result = b.call("add", b.call("logarithm", total), peak)
    return result if keepdim else result.without(dims)


def _sum(b: Builder, x: Placed, dim: _Dims = None, keepdim: bool = False) -> Placed:
    return b.reduce("sum", x, b.dims_of(x, dim), keepdim)


def _mean(b: Builder, x: Placed, dim: _Dims = None, keepdim: bool = False) -> Placed:
    return b.mean(x, b.dims_of(x, dim), keepdim)


def _extreme(kind: str) -> _Rule:
    def rule(b: Builder, x: Placed, dim: _Dims = None, keepdim: bool = False) -> Placed:
        return b.reduce(kind, x, b.dims_of(x, dim), keepdim)

    return rule


def _norm(
    b: Builder, x: Placed, order: float = 2, dim: _Dims = None, keepdim: bool = False
) -> Placed:
    dims = b.dims_of(x, dim)
    if order == 2:
        return b.call("root", b.reduce("sum", b.call("product", x, x), dims, keepdim))
    if order not in (1, float("inf"), "inf"):
        raise NotCoveredError(f"norm of order {order}")
    return b.reduce("sum" if order == 1 else "max", b.call("absolute", x), dims, keepdim)


def _moments(b: Builder, x: Placed, dims: Sequence[int]) -> tuple[Placed, Placed]:
    """Mean and biased variance over dimensions that are kept with size 1."""
    load = b.terms[x.term].payload
    if b.shifted and isinstance(load, Load):
        removed = {axis for dim in dims for axis in x.dims[dim]}
        strides = tuple((axis, step) for axis, step in load.strides if axis not in removed)
        kept = tuple(() if dim in dims else axes for dim, axes in enumerate(x.dims))
        last = {axis: b.sizes[axis] - 1 for axis in removed}
        one, two, three = (
            Placed(term=b.terms.load(replace(load, strides=strides, offset=place)), dims=kept)
            for part in (0, 1, 2)
            for place in [sum(s * (last[a] * part // 2) for a, s in load.strides if a in removed)]
        )
        # Were it a single element, an outlier there would cost the sums their accuracy.
        shift = b.call(
            "larger",
            b.call("lesser", one, three),
            b.call("lesser", b.call("larger", one, three), two),
        )
        shifted = b.call("subtract", x, shift)
        offset = b.mean(shifted, dims)
        square = b.mean(b.call("product", shifted, shifted), dims)
        spread = b.call("subtract", square, b.call("product", offset, offset))
        return b.call("add", shift, offset), b.call("at_least", spread, 0.0)
    mean = b.mean(x, dims)
    centred = b.call("subtract", x, mean)
    return mean, b.mean(b.call("product", centred, centred), dims)


def _spread(*, root: bool, with_mean: bool) -> _Rule:
    """Variances or standard deviations over dimensions, of which torch may ask for means too."""

    def rule(
        b: Builder,
        x: Placed,
        dim: _Dims = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Placed | tuple[Placed, ...]:
        dims = b.dims_of(x, dim)
        count = b.count(x, dims)
        freedom = count - (1 if correction is None else correction)
        if freedom <= 0:
            raise NotCoveredError("a variance of too few elements")
        mean, variance = _moments(b, x, dims)
        if freedom != count:
            variance = b.call("product", variance, count / freedom)
        spread = b.call("root", variance) if root else variance
        both = (spread, mean) if keepdim else (spread.without(dims), mean.without(dims))
        return both if with_mean else both[0]

    return rule


def _normalised(b: Builder, x: Placed, mean: Placed, variance: Placed, eps: float) -> Placed:
    scale = b.call("quotient", 1.0, b.call("root", b.call("add", variance, eps)))
    return b.call("product", b.call("subtract", x, mean), scale)


def _affine(
    b: Builder,
    x: Placed,
    weight: Placed | None,
    bias: Placed | None,
    dims: Sequence[tuple[int, ...]],
) -> Placed:
    if weight is not None:
        x = b.call("product", x, b.along(weight, dims))
    return x if bias is None else b.call("add", x, b.along(bias, dims))


def _layer_norm(
    b: Builder,
    x: Placed,
    shape: Sequence[int],
    weight: Placed | None,
    bias: Placed | None,
    eps: float,
) -> Placed:
    last = range(len(x.dims) - len(shape), len(x.dims))
    result = _normalised(b, x, *_moments(b, x, last), eps)
    return _affine(b, result, weight, bias, [x.dims[dim] for dim in last])


def _group_norm(
    b: Builder, x: Placed, weight: Placed | None, bias: Placed | None, *sizes: int
) -> Placed:
    rows, channels, inner, groups, eps = sizes
    split = b.viewed(x, (rows, groups, channels // groups, inner))
    result = _normalised(b, split, *_moments(b, split, (2, 3)), eps)
    result = _affine(b, result, weight, bias, [split.dims[1], split.dims[2], ()])
    return Placed(term=result.term, dims=x.dims)


def _batch_norm(
    b: Builder,
    x: Placed,
    weight: Placed | None,
    bias: Placed | None,
    *rest: Any,  # noqa: ANN401 - as torch has it: buffers, then numbers
) -> Placed:
    running_mean, running_variance, training, momentum, eps = rest
    dims = [dim for dim in range(len(x.dims)) if dim != 1]
    channel = [axes if dim == 1 else () for dim, axes in enumerate(x.dims)][1:]
    old = [
        None if buffer is None else b.along(buffer, channel)
        for buffer in (running_mean, running_variance)
    ]
    if not training:
        mean, variance = old
        if mean is None or variance is None:
            raise NotCoveredError("batch normalisation without statistics")
    else:
        mean, variance = _moments(b, x, dims)
        count = b.count(x, dims)
        unbiased = b.call("product", variance, count / max(count - 1, 1))
        for buffer, before, now in zip(
            (running_mean, running_variance), old, (mean, unbiased), strict=True
        ):
            if buffer is not None and before is not None:
                kept = b.call("product", before, 1.0 - momentum)
                fresh = b.call("add", kept, b.call("product", now, momentum))
                b.updates.append((buffer.value, Placed(term=fresh.term, dims=tuple(channel))))
    result = _normalised(b, x, mean, variance, eps)
    return _affine(b, result, weight, bias, channel)


COMPOSITES: Mapping[str, _Rule] = {
    **LOSSES,
    "_log_softmax": _log_softmax,
    "_softmax": _softmax,
    "amax": _extreme("max"),
    "amin": _extreme("min"),
    "argmax": _extreme("argmax"),
    "argmin": _extreme("argmin"),
    "linalg_vector_norm": _norm,
    "logsumexp": _log_sum_exp,
    "max": _extreme("max"),
    "mean": _mean,
    "min": _extreme("min"),
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
    "native_layer_norm": _layer_norm,
    "norm": _norm,
    "std": _spread(root=True, with_mean=False),
    "std_mean": _spread(root=True, with_mean=True),
    "sum": _sum,
    "var": _spread(root=False, with_mean=False),
    "var_mean": _spread(root=False, with_mean=True),
}
"""Rules by operation, "aten." and the overload left out. A rule takes the `Builder` and torch's
arguments, tensors as `Placed`; it raises `NotCoveredError` for what it does not cover."""
