"""Expressions: what one output element is, as a directed graph of terms, and its C++ text.

A term stands for a value at every point of an iteration space with numbered axes, outermost
first; a term that does not depend on an axis is constant along it. Equal terms are one term.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["CALLS", "Call", "Load", "Term", "Terms", "literal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A pointwise function in C++.

    Attributes:
        text: Its text, operands as {0}, {1}, {2}.
        needs: The function of `operators.sketches.cpp.maths` it calls, or "".
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where a loaded value lies.

    Attributes:
        value: Name of the graph's input, parameter or buffer.
        dtype: Its dtype, such as "float32".
        strides: Strides in elements by axis; axes not named have stride 0.
        picked: Term that is added to the offset, times `pick_stride` (an index), or None.
        pick_stride: Stride of the index in elements.
        pick_size: Exclusive bound of the index; outside of it the value is NaN.
    """

    value: str
    dtype: str
    strides: tuple[tuple[int, int], ...]
    picked: int | None = None
    pick_stride: int = 0
    pick_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term.

    Attributes:
        op: "load", "scalar", "constant", "reduce" or a name in `CALLS`.
        args: Numbers of its operands.
        payload: A `Load`, the name of a scalar, a number, None, or the kind of a reduction: "sum",
            "max", "min", "argmax", "argmin", or "peak", a maximum that passes over NaN.
        axes: The axes it depends on.
    """

    op: str
    args: tuple[int, ...] = ()
    payload: Load | float | str | None = None
    axes: frozenset[int] = frozenset()


@dataclass(slots=True, kw_only=True)
class Terms:
    """All terms of a computation, numbered in an order in which operands come first."""

    terms: list[Term] = field(default_factory=list)
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Term:
        return self.terms[number]

    def constant(self, value: float) -> int:
        """Return the term of a number."""
        return self._add(Term(op="constant", payload=float(value)))

    def load(self, load: Load) -> int:
        """Return the term of a loaded value."""
        axes = {axis for axis, stride in load.strides if stride}
        args: tuple[int, ...] = ()
        if load.picked is not None:
            args = (load.picked,)
            axes |= self[load.picked].axes
        return self._add(Term(op="load", payload=load, args=args, axes=frozenset(axes)))

    def scalar(self, value: str) -> int:
        """Return the term of an input that is a plain number, by its name."""
        return self._add(Term(op="scalar", payload=value))

    def call(self, op: str, *args: int) -> int:
        """Return the term of a pointwise function.

        A quotient by what is constant along some axes becomes a product with its inverse.
        """
        assert op in CALLS, op
        if op == "quotient" and self[args[0]].axes > self[args[1]].axes:
            return self.call("product", args[0], self.call("quotient", self.constant(1), args[1]))
        axes = frozenset().union(*(self[arg].axes for arg in args))
        return self._add(Term(op=op, args=args, axes=axes))

    def reduce(self, kind: str, arg: int, removed: Iterable[int]) -> int:
        """Return the term of a reduction (see `Term`)."""
        axes = self[arg].axes - frozenset(removed)
        return self._add(Term(op="reduce", args=(arg,), payload=kind, axes=axes))

    def needed(self, roots: Iterable[int], stop: Iterable[int] = ()) -> list[int]:
        """Return the terms that some terms stand on, themselves included, operands first.

        Args:
            roots: Terms wanted.
            stop: Terms that are at hand already; what they stand on is not followed.
        """
        known = set(stop)
        found: set[int] = set()
        pending = [root for root in roots if root not in known]
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [arg for arg in self[number].args if arg not in known]
        return sorted(found)

    def replaced(self, root: int, replacements: Mapping[int, int]) -> int:
        """Return a copy of a term in which some of the terms it stands on are replaced."""
        results = dict(replacements)
        for number in self.needed([root], results):
            term = self[number]
            args = tuple(results.get(arg, arg) for arg in term.args)
            if args == term.args:
                results[number] = number
            elif term.op == "reduce":
                removed = self[term.args[0]].axes - term.axes
                results[number] = self.reduce(str(term.payload), args[0], removed)
            elif term.op == "load":
                results[number] = number
            else:
                results[number] = self.call(term.op, *args)
        return results.get(root, root)

    def functions(self, numbers: Iterable[int]) -> set[str]:
        """Return the names of the C++ functions that some terms call."""
        calls = (CALLS[self[n].op].needs for n in numbers if self[n].op in CALLS)
        return {name for name in calls if name}

    def _add(self, term: Term) -> int:
        key = (term.op, term.args, term.payload, term.axes)
        if key not in self._numbers:
            self._numbers[key] = len(self.terms)
            self.terms.append(term)
        return self._numbers[key]


def literal(value: float) -> str:
    """Return a C++ float literal."""
    if math.isnan(value):
        return "NAN_"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    return f"{value!r}f"
