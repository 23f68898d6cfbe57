"""Losses of torch as terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from operators.sketches.patterns.axes import Placed, grouped
from operators.sketches.patterns.builder import Builder, NotCoveredError
from operators.sketches.patterns.expressions import Load

__all__ = ["LOSSES"]

_Rule = Callable[..., Placed]
_LEAST_LOGARITHM = -100.0
"""What torch raises the logarithms of a binary cross entropy to."""


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


def _binary_cross_entropy(
    b: Builder, x: Placed, y: Placed, weight: Placed | None = None, reduction: int = 1
) -> Placed:
    one = b.call("at_least", b.call("logarithm", x), _LEAST_LOGARITHM)
    other = b.call("logarithm_of_1_plus", b.call("negative", x))
    other = b.call("at_least", other, _LEAST_LOGARITHM)
    other = b.call("product", b.call("subtract", y, 1.0), other)
    loss = b.call("subtract", other, b.call("product", y, one))
    return _reduced(b, loss if weight is None else b.call("product", loss, weight), reduction)


def _log_sigmoid(b: Builder, x: Placed) -> Placed:
    power = b.call("exponential", b.call("negative", b.call("absolute", x)))
    return b.call("subtract", b.call("at_most", x, 0.0), b.call("logarithm_of_1_plus", power))


def _binary_cross_entropy_with_logits(
    b: Builder,
    x: Placed,
    y: Placed,
    weight: Placed | None = None,
    positive: Placed | None = None,
    reduction: int = 1,
) -> Placed:
    logarithm = _log_sigmoid(b, x)
    if positive is not None:
        factor = b.call("product", b.call("subtract", positive, 1.0), y)
        logarithm = b.call("product", logarithm, b.call("add", factor, 1.0))
    loss = b.call("product", b.call("subtract", 1.0, y), x)
    loss = b.call("subtract", loss, logarithm)
    return _reduced(b, loss if weight is None else b.call("product", loss, weight), reduction)


def _nll_loss(
    b: Builder,
    x: Placed,
    target: Placed,
    weight: Placed | None = None,
    reduction: int = 1,
    ignored: int = -100,
) -> Placed:
    if x.term < 0 or len(x.dims) < 2 or len(x.dims[1]) != 1:
        raise NotCoveredError("a likelihood of a single example")
    axis = x.dims[1][0]
    rows = (x.dims[0], *x.dims[2:])
    index = _targets(b, target, rows)
    terms = b.terms
    picked: dict[int, int] = {}
    for number in terms.needed([x.term]):
        load = terms[number].payload
        if terms[number].op == "reduce":
            picked[number] = number
        elif isinstance(load, Load) and axis in terms[number].axes:
            step = dict(load.strides)[axis]
            rest = tuple(item for item in load.strides if item[0] != axis)
            picked[number] = _picked(b, replace(load, strides=rest), index, step, b.sizes[axis])
    chosen = Placed(term=terms.replaced(x.term, picked), dims=rows)
    share = Placed(term=terms.constant(1.0))
    if weight is not None:
        load = terms[b.along(weight, [(axis,)]).term].payload
        assert isinstance(load, Load)
        step = dict(load.strides).get(axis, 0)
        load = replace(load, strides=())
        share = Placed(term=_picked(b, load, index, step, b.sizes[axis]), dims=rows)
        chosen = b.call("product", chosen, share)
    skipped = b.call("equal", index, float(ignored))
    loss = b.call("select", skipped, 0.0, b.call("negative", chosen))
    if reduction != 1:
        return _reduced(b, loss, reduction)
    dims = range(len(rows))
    used = b.reduce("sum", b.call("select", skipped, 0.0, share), dims, False)
    return b.call("quotient", b.reduce("sum", loss, dims, False), used)


def _targets(b: Builder, target: Placed, rows: tuple[tuple[int, ...], ...]) -> Placed:
    """The class of each row. Where the place of the input was not known, it is from now on."""
    axes = [axis for dims in rows for axis in dims]
    if target.term >= 0:
        if b.terms[target.term].axes != frozenset(axes):
            raise NotCoveredError("classes of other rows")
        return Placed(term=target.term, dims=rows)
    spec = b.spec(target)
    dims = grouped(axes, b.sizes, spec.shape)
    if dims is None or prod(target.shape) != spec.numel:
        raise NotCoveredError(target.value)
    b.values[target.value] = b.loaded(target.value, dims)
    return b.loaded(target.value, rows)


def _picked(b: Builder, load: Load, index: Placed, step: int, size: int) -> int:
    """Term of a load of which an index gives the place along an axis."""
    return b.terms.load(replace(load, picked=index.term, pick_stride=step, pick_size=size))


LOSSES: Mapping[str, _Rule] = {
    "binary_cross_entropy": _binary_cross_entropy,
    "binary_cross_entropy_with_logits": _binary_cross_entropy_with_logits,
    "huber_loss": _huber_loss,
    "log_sigmoid_forward": _log_sigmoid,
    "mse_loss": _mse_loss,
    "nll_loss2d_forward": _nll_loss,
    "nll_loss_forward": _nll_loss,
    "smooth_l1_loss": _smooth_l1_loss,
}
"""Rules by operation, as in `COMPOSITES`."""
