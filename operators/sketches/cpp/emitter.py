"""Writes terms out as C++ statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operators.sketches.cpp.calls import CALLS, literal
from operators.sketches.patterns.expressions import Load, Terms
from operators.sketches.patterns.schedule import Loop, Schedule

__all__ = ["C_TYPES", "EXTREMES", "FIRSTS", "Emitter", "indices", "offset", "update"]

C_TYPES = {"float32": "float", "bool": "bool", "int64": "long"}
"""C++ types of loaded and stored values by dtype."""

FIRSTS = {
    "sum": "0.0f",
    "max": "-INF",
    "peak": "-INF",
    "min": "INF",
    "argmax": "-INF",
    "argmin": "INF",
}
"""Where each kind of reduction starts."""

EXTREMES = {"max": "larger", "min": "lesser", "peak": "higher"}
"""The C++ function of each kind that keeps the better of two values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """Writes statements for terms.

    Attributes:
        terms: All terms.
        names: Local variable in `forward` of each input, parameter and buffer.
        address: Gives the text of a loaded value from its number, its `Load` and the text of its
            picked index ("" where it has none), such as "in_weight[k0]" or "x0[i + l]".
        known: C++ text of terms that are at hand, by number.
    """

    terms: Terms
    names: Mapping[str, str]
    address: Callable[[int, Load, str], str]
    known: dict[int, str] = field(default_factory=dict)

    def statements(self, roots: Iterable[int]) -> list[str]:
        """Return statements for terms and what they stand on; they are known afterwards."""
        return [
            line
            for number in self.terms.needed(roots, self.known)
            for line in [self._statement(number)]
            if line
        ]

    def _statement(self, number: int) -> str:
        term = self.terms[number]
        if term.op == "constant":
            assert isinstance(term.payload, float)
            self.known[number] = literal(term.payload)
            return ""
        if term.op == "scalar":
            self.known[number] = f"in_{self.names[str(term.payload)]}"
            return ""
        assert term.op != "reduce", "a reduction is known before it is used"
        if term.op == "load":
            assert isinstance(term.payload, Load)
            name = f"{self.names[term.payload.value]}{number}"
            picked = term.payload.picked
            index = "" if picked is None else self.known[picked]
            text = self.address(number, term.payload, index)
            kind = C_TYPES[term.payload.dtype]
            if index:
                text = f"(unsigned long){index} < {term.payload.pick_size}ul ? {text} : NAN_"
        else:
            call = CALLS[term.op]
            name = f"{term.op}{number}"
            text = call.text.format(*(self.known[arg] for arg in term.args))
            text = text[1:-1] if _is_wrapped(text) else text
            kind = call.result
        self.known[number] = name
        return f"const {kind} {name} = {text};"


def _is_wrapped(text: str) -> bool:
    """Tell whether the outermost brackets enclose the whole text."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return character == ")" and position == len(text) - 1
    return False


def offset(strides: Mapping[int, int], loops: Sequence[tuple[Loop, str]], first: int = 0) -> str:
    """Return the text of an offset: `first` and the sum of index * stride over loops."""
    parts = [str(first)] if first else []
    for loop, index in loops:
        step = strides.get(loop.axes[-1], 0)
        if step:
            parts.append(index if step == 1 else f"{index} * {step}")
    return " + ".join(parts) or "0"


def indices(loops: Sequence[Loop], prefix: str, counter: str) -> tuple[list[str], list[str]]:
    """Split a counter over several loops into their indices.

    Returns:
        The names of the indices and the statements that define them.
    """
    names = [f"{prefix}{position}" for position in range(len(loops))]
    if len(loops) == 1:
        return names, [f"const long {names[0]} = {counter};"]
    lines = []
    inner = 1
    for name, loop in reversed(list(zip(names, loops, strict=True))):
        text = counter if inner == 1 else f"{counter} / {inner}"
        lines.append(f"const long {name} = {text} % {loop.size};")
        inner *= loop.size
    return names, lines[::-1]


def update(schedule: Schedule, number: int, value: str, lane: str, index: str) -> list[str]:
    """Return statements that take one value into one lane of a reduction.

    Args:
        schedule: Holds the reduction.
        number: Number of its term; its lanes are named after it.
        value: Text of the value.
        lane: Text of the lane, such as "[l]".
        index: Text of the value's position along the reduced axes, as an int.
    """
    kind = schedule.terms[number].payload
    name = f"{kind}{number}{lane}"
    if kind == "sum":
        return [f"{name} += {value};"]
    if kind in EXTREMES:
        return [f"{name} = {EXTREMES[str(kind)]}({name}, {value});"]
    sign = ">" if kind == "argmax" else "<"
    better = f"({value} {sign} {name}) | (({value} != {value}) & ({name} == {name}))"
    return [
        f"const bool better{number} = {better};",
        f"{name} = better{number} ? {value} : {name};",
        f"where{number}{lane} = better{number} ? {index} : where{number}{lane};",
    ]
