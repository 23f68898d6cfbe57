"""Operations of torch that are more than pointwise, as terms: reductions, norms, losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from operators.sketches.patterns.axes import Placed
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.expressions import Load

__all__ = ["COMPOSITES"]

_Rule = Callable[..., Placed]
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


def _logsumexp(b: Builder, x: Placed, dim: _Dims, keepdim: bool = False) -> Placed:
    dims = b.dims_of(x, dim)
    peak = b.reduce("peak", x, dims)
    infinite = b.call("equal", b.call("absolute", peak), float("inf"))
    calm = b.call("select", infinite, 0.0, peak)
    total = b.reduce("sum", b.call("exponential", b.call("subtract", x, calm)), dims)
    result = b.call("add", b.call("logarithm", total), calm)
    left = (axes for dim, axes in enumerate(result.dims) if keepdim or dim not in dims)
    return replace(result, dims=tuple(left))


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
        x = b.call("product", x, b.loaded(weight.value, dims))
    return x if bias is None else b.call("add", x, b.loaded(bias.value, dims))


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
        None if buffer is None else b.loaded(buffer.value, channel)
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


def _reduced(b: Builder, loss: Placed, reduction: int) -> Placed:
    """Apply torch's reduction: 0 none, 1 mean, 2 sum."""
    if reduction == 0:
        return loss
    dims = range(len(loss.dims))
    return b.mean(loss, dims, False) if reduction == 1 else b.reduce("sum", loss, dims, False)


def _mse_loss(b: Builder, x: Placed, y: Placed, reduction: int = 1) -> Placed:
    difference = b.call("subtract", x, y)
    return _reduced(b, b.call("product", difference, difference), reduction)


def _smooth_l1_loss(
    b: Builder, x: Placed, y: Placed, reduction: int = 1, beta: float = 1.0
) -> Placed:
    size = b.call("absolute", b.call("subtract", x, y))
    if beta == 0:
        return _reduced(b, size, reduction)
    square = b.call("product", b.call("product", size, size), 0.5 / beta)
    linear = b.call("subtract", size, 0.5 * beta)
    return _reduced(b, b.call("select", b.call("less", size, beta), square, linear), reduction)


def _huber_loss(b: Builder, x: Placed, y: Placed, reduction: int = 1, delta: float = 1.0) -> Placed:
    size = b.call("absolute", b.call("subtract", x, y))
    square = b.call("product", b.call("product", size, size), 0.5)
    linear = b.call("product", b.call("subtract", size, 0.5 * delta), delta)
    return _reduced(b, b.call("select", b.call("less", size, delta), square, linear), reduction)


def _nll_loss(
    b: Builder,
    x: Placed,
    target: Placed,
    weight: Placed | None = None,
    reduction: int = 1,
    ignored: int = -100,
) -> Placed:
    if weight is not None or x.term < 0 or len(x.dims) != 2 or len(x.dims[1]) != 1:
        raise NotCoveredError("a weighted or spatial likelihood")
    axis = x.dims[1][0]
    index = b.loaded(target.value, [x.dims[0]]) if target.term < 0 else target
    terms = b.terms
    picked: dict[int, int] = {}
    for number in terms.needed([x.term]):
        load = terms[number].payload
        if terms[number].op == "reduce":
            picked[number] = number
        elif isinstance(load, Load) and axis in terms[number].axes:
            step = dict(load.strides)[axis]
            rest = tuple(item for item in load.strides if item[0] != axis)
            size = b.sizes[axis]
            fresh = replace(load, strides=rest, picked=index.term, pick_stride=step, pick_size=size)
            picked[number] = terms.load(fresh)
    chosen = Placed(term=terms.replaced(x.term, picked), dims=(x.dims[0],))
    skipped = b.call("equal", index, float(ignored))
    loss = b.call("select", skipped, 0.0, b.call("negative", chosen))
    if reduction != 1:
        return _reduced(b, loss, reduction)
    used = b.reduce("sum", b.call("select", skipped, 0.0, 1.0), [0], False)
    return b.call("quotient", b.reduce("sum", loss, [0], False), used)


COMPOSITES: Mapping[str, _Rule] = {
    "_log_softmax": _log_softmax,
    "_softmax": _softmax,
    "amax": _extreme("max"),
    "amin": _extreme("min"),
    "argmax": _extreme("argmax"),
    "argmin": _extreme("argmin"),
    "huber_loss": _huber_loss,
    "linalg_vector_norm": _norm,
    "logsumexp": _logsumexp,
    "max": _extreme("max"),
    "mean": _mean,
    "min": _extreme("min"),
    "mse_loss": _mse_loss,
    "native_batch_norm": _batch_norm,
    "native_group_norm": _group_norm,
    "native_layer_norm": _layer_norm,
    "nll_loss_forward": _nll_loss,
    "norm": _norm,
    "smooth_l1_loss": _smooth_l1_loss,
    "sum": _sum,
}
"""Rules by operation, "aten." and the overload left out. A rule takes the `Builder` and torch's
arguments, tensors as `Placed`; it raises `NotCoveredError` for what it does not cover."""
