"""Expressions: what one output element is, as a directed graph of terms.

A term stands for a value at every point of an iteration space with numbered axes, outermost
first; a term that does not depend on an axis is constant along it. Equal terms are one term.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["OPERATIONS", "Load", "Term", "Terms"]


OPERATIONS = frozenset(
    [
        "add",
        "subtract",
        "product",
        "quotient",
        "negative",
        "absolute",
        "root",
        "floor",
        "ceiling",
        "rounded",
        "truncated",
        "exponential",
        "exponential_minus_1",
        "logarithm",
        "logarithm_of_1_plus",
        "hyperbolic_tangent",
        "error_function",
        "logistic",
        "sine",
        "cosine",
        "power",
        "larger",
        "lesser",
        "at_least",
        "at_most",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "equal",
        "unequal",
        "both",
        "either",
        "neither",
        "select",
        "number",
        "truth",
    ]
)
"""Names of pointwise functions. NaN passes through all of them as in torch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where a loaded value lies.

    Attributes:
        value: Name of the graph's input, parameter or buffer.
        dtype: Its dtype, such as "float32".
        strides: Strides in elements by axis; axes not named have stride 0.
        offset: Elements before the first one.
        picked: Term that is added to the offset, times `pick_stride` (an index), or None.
        pick_stride: Stride of the index in elements.
        pick_size: Exclusive bound of the index; outside of it the value is NaN.
    """

    value: str
    dtype: str
    strides: tuple[tuple[int, int], ...]
    offset: int = 0
    picked: int | None = None
    pick_stride: int = 0
    pick_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term.

    Attributes:
        op: "load", "scalar", "constant", "reduce" or a name in `OPERATIONS`.
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
        assert op in OPERATIONS, op
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

    def _add(self, term: Term) -> int:
        key = (term.op, term.args, term.payload, term.axes)
        if key not in self._numbers:
            self._numbers[key] = len(self.terms)
            self.terms.append(term)
        return self._numbers[key]
