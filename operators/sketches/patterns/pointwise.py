"""Pointwise operations of torch as terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from operators.sketches.patterns.expressions import Terms

__all__ = ["POINTWISE"]

_Rule = Callable[..., int | None]


def _simple(op: str) -> _Rule:
    return lambda t, *args: t.call(op, *args)


def _logical(op: str) -> _Rule:
    """An operation on truth values; numbers are true where they are not 0."""
    return lambda t, *args: t.call(op, *(t.call("truth", arg) for arg in args))


def _scaled(op: str) -> _Rule:
    """An addition or subtraction with torch's factor `alpha`."""

    def rule(t: Terms, a: int, b: int, alpha: int | None = None) -> int:
        return t.call(op, a, b if alpha is None else t.call("product", b, alpha))

    return rule


def _rsub(t: Terms, a: int, b: int, alpha: int | None = None) -> int:
    return t.call("subtract", b, a if alpha is None else t.call("product", a, alpha))


def _clamp(t: Terms, x: int, low: int | None = None, high: int | None = None) -> int:
    x = x if low is None else t.call("at_least", x, low)
    return x if high is None else t.call("at_most", x, high)


def _clamp_max(t: Terms, x: int, high: int) -> int:
    return t.call("at_most", x, high)


def _power(t: Terms, x: int, exponent: int) -> int | None:
    value = t[exponent].payload
    if t[exponent].op != "constant" or not isinstance(value, float):
        return t.call("power", x, exponent)
    if value == 0.5:
        return t.call("root", x)
    if value.is_integer() and 1 <= value <= 8:
        result = x
        for digit in bin(int(value))[3:]:
            result = t.call("product", result, result)
            result = t.call("product", result, x) if digit == "1" else result
        return result
    if value in (-1.0, -2.0):
        one = t.constant(1.0)
        return t.call("quotient", one, x if value == -1.0 else t.call("product", x, x))
    return t.call("power", x, exponent)


def _leaky_relu(t: Terms, x: int, slope: int | None = None) -> int:
    slope = t.constant(0.01) if slope is None else slope
    return t.call("select", t.call("greater", x, t.constant(0)), x, t.call("product", x, slope))


def _elu(
    t: Terms,
    x: int,
    alpha: int | None = None,
    scale: int | None = None,
    input_scale: int | None = None,
) -> int:
    scaled = x if input_scale is None else t.call("product", x, input_scale)
    low = t.call("exponential_minus_1", scaled)
    low = low if alpha is None else t.call("product", low, alpha)
    result = t.call("select", t.call("greater", x, t.constant(0)), x, low)
    return result if scale is None else t.call("product", result, scale)


def _gelu(t: Terms, x: int, approximate: str = "none") -> int:
    if approximate == "tanh":
        cube = t.call("product", t.call("product", x, x), x)
        inner = t.call("add", x, t.call("product", t.constant(0.044715), cube))
        inner = t.call("product", t.constant(math.sqrt(2 / math.pi)), inner)
        gate = t.call("hyperbolic_tangent", inner)
    else:
        gate = t.call("error_function", t.call("product", x, t.constant(math.sqrt(0.5))))
    half = t.call("product", t.constant(0.5), x)
    return t.call("product", half, t.call("add", t.constant(1), gate))


def _softplus(t: Terms, x: int, beta: int | None = None, threshold: int | None = None) -> int:
    beta = t.constant(1) if beta is None else beta
    threshold = t.constant(20) if threshold is None else threshold
    scaled = t.call("product", x, beta) if t[beta].payload != 1.0 else x
    soft = t.call("logarithm_of_1_plus", t.call("exponential", scaled))
    soft = t.call("quotient", soft, beta) if t[beta].payload != 1.0 else soft
    return t.call("select", t.call("greater", scaled, threshold), x, soft)


def _relu6(t: Terms, x: int) -> int:
    return _clamp(t, x, t.constant(0), t.constant(6))


def _hardsigmoid(t: Terms, x: int) -> int:
    shifted = _relu6(t, t.call("add", x, t.constant(3)))
    return t.call("quotient", shifted, t.constant(6))


def _hardswish(t: Terms, x: int) -> int:
    shifted = _relu6(t, t.call("add", x, t.constant(3)))
    return t.call("quotient", t.call("product", x, shifted), t.constant(6))


def _xlogy(t: Terms, x: int, y: int) -> int:
    zero = t.constant(0)
    value = t.call("product", x, t.call("logarithm", y))
    value = t.call("select", t.call("equal", x, zero), zero, value)
    return t.call("select", t.call("unequal", y, y), y, value)


def _where(t: Terms, condition: int, a: int, b: int) -> int:
    return t.call("select", condition, a, b)


def _masked_fill(t: Terms, x: int, mask: int, value: int) -> int:
    return t.call("select", mask, value, x)


def _sign(t: Terms, x: int) -> int:
    zero = t.constant(0)
    low = t.call("select", t.call("less", x, zero), t.constant(-1), x)
    return t.call("select", t.call("greater", x, zero), t.constant(1), low)


def _hardtanh(t: Terms, x: int, low: int | None = None, high: int | None = None) -> int:
    low = t.constant(-1) if low is None else low
    return _clamp(t, x, low, t.constant(1) if high is None else high)


POINTWISE: Mapping[str, _Rule] = {
    "abs": _simple("absolute"),
    "add": _scaled("add"),
    "bitwise_and": _simple("both"),
    "bitwise_not": _simple("neither"),
    "bitwise_or": _simple("either"),
    "ceil": _simple("ceiling"),
    "clamp": _clamp,
    "clamp_max": _clamp_max,
    "clamp_min": _clamp,
    "cos": _simple("cosine"),
    "div": _simple("quotient"),
    "elu": _elu,
    "eq": _simple("equal"),
    "erf": _simple("error_function"),
    "exp": _simple("exponential"),
    "expm1": _simple("exponential_minus_1"),
    "floor": _simple("floor"),
    "ge": _simple("greater_equal"),
    "gelu": _gelu,
    "gt": _simple("greater"),
    "hardsigmoid": _hardsigmoid,
    "hardswish": _hardswish,
    "hardtanh": _hardtanh,
    "le": _simple("less_equal"),
    "leaky_relu": _leaky_relu,
    "log": _simple("logarithm"),
    "log1p": _simple("logarithm_of_1_plus"),
    "logical_and": _logical("both"),
    "logical_not": _logical("neither"),
    "logical_or": _logical("either"),
    "lt": _simple("less"),
    "masked_fill": _masked_fill,
    "maximum": _simple("larger"),
    "minimum": _simple("lesser"),
    "mish": lambda t, x: t.call("product", x, t.call("hyperbolic_tangent", _softplus(t, x))),
    "mul": _simple("product"),
    "ne": _simple("unequal"),
    "neg": _simple("negative"),
    "pow": _power,
    "reciprocal": lambda t, x: t.call("quotient", t.constant(1), x),
    "relu": lambda t, x: _clamp(t, x, t.constant(0)),
    "relu6": _relu6,
    "round": _simple("rounded"),
    "rsqrt": lambda t, x: t.call("quotient", t.constant(1), t.call("root", x)),
    "rsub": _rsub,
    "sigmoid": _simple("logistic"),
    "sign": _sign,
    "silu": lambda t, x: t.call("product", x, t.call("logistic", x)),
    "sin": _simple("sine"),
    "softplus": _softplus,
    "sqrt": _simple("root"),
    "square": lambda t, x: t.call("product", x, x),
    "sub": _scaled("subtract"),
    "tanh": _simple("hyperbolic_tangent"),
    "trunc": _simple("truncated"),
    "where": _where,
    "xlogy": _xlogy,
}
"""Rules by operation, "aten." and the overload left out. A rule takes `Terms` and the operands as
term numbers in torch's order; an operand left out or None stays so; strings stay strings. Where
the operation is not covered, it returns None."""
