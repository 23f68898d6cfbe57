"""C++ text of the pointwise functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from operators.sketches.patterns.expressions import Terms

__all__ = ["CALLS", "Call", "functions", "literal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A pointwise function in C++.

    Attributes:
        text: Its text, operands as {0}, {1}, {2}.
        needs: The function of `operators.sketches.cpp.maths.maths` it calls, or "".
        result: C++ type of the result.
    """

    text: str
    needs: str = ""
    result: str = "float"


def _function(name: str, arguments: int = 1) -> Call:
    operands = ", ".join(f"{{{index}}}" for index in range(arguments))
    return Call(text=f"{name}({operands})", needs=name)


def _builtin(name: str) -> Call:
    return Call(text=f"__builtin_{name}({{0}})")


def _compare(sign: str) -> Call:
    return Call(text=f"({{0}} {sign} {{1}})", result="bool")


CALLS: Mapping[str, Call] = {
    "add": Call(text="({0} + {1})"),
    "subtract": Call(text="({0} - {1})"),
    "product": Call(text="({0} * {1})"),
    "quotient": Call(text="({0} / {1})"),
    "negative": Call(text="(-{0})"),
    "absolute": _builtin("fabsf"),
    "root": _builtin("sqrtf"),
    "floor": _builtin("floorf"),
    "ceiling": _builtin("ceilf"),
    "rounded": _builtin("rintf"),
    "truncated": _builtin("truncf"),
    "exponential": _function("exponential"),
    "exponential_minus_1": _function("exponential_minus_1"),
    "logarithm": _function("logarithm"),
    "logarithm_of_1_plus": _function("logarithm_of_1_plus"),
    "hyperbolic_tangent": _function("hyperbolic_tangent"),
    "error_function": _function("error_function"),
    "logistic": _function("logistic"),
    "sine": _function("sinf"),
    "cosine": _function("cosf"),
    "power": _function("powf", 2),
    "larger": _function("larger", 2),
    "lesser": _function("lesser", 2),
    "at_least": Call(text="({0} < {1} ? {1} : {0})"),
    "at_most": Call(text="({0} > {1} ? {1} : {0})"),
    "less": _compare("<"),
    "less_equal": _compare("<="),
    "greater": _compare(">"),
    "greater_equal": _compare(">="),
    "equal": _compare("=="),
    "unequal": _compare("!="),
    "both": _compare("&"),
    "either": _compare("|"),
    "neither": Call(text="(!{0})", result="bool"),
    "select": Call(text="({0} ? {1} : {2})"),
    "number": Call(text="(float){0}"),
    "truth": Call(text="({0} != 0)", result="bool"),
}
"""Pointwise functions by name. NaN passes through all of them as in torch."""


def functions(terms: Terms, numbers: Iterable[int]) -> set[str]:
    """Return the names of the C++ functions that some terms call."""
    calls = (CALLS[terms[n].op].needs for n in numbers if terms[n].op in CALLS)
    return {name for name in calls if name}


def literal(value: float) -> str:
    """Return a C++ float literal."""
    if math.isnan(value):
        return "NAN_"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"{value!r}f"
