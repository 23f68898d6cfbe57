"""Reductions while they are under way: a value for each lane, and how lanes are folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.schedule import Schedule

__all__ = ["Field", "Variable", "fields_of", "online_field"]

_LOWEST, _HIGHEST = 'float("-inf")', 'float("inf")'
_FIRSTS = {"sum": "0.0", "max": _LOWEST, "peak": _LOWEST, "min": _HIGHEST}
_NOWHERE = "2147483647"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A tensor of a kernel that holds a value for each lane, then one for each row.

    Attributes:
        name: Its name.
        first: Where it starts: what changes nothing.
        dtype: "float32" or "int32".
    """

    name: str
    first: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A reduction in a kernel.

    Attributes:
        kind: The kind of a `Term` that is a reduction, or "online": a peak and the sum of the
            exponentials relative to it.
        value: Number of the term that is reduced.
        results: Text of what it yields by number of term.
        variables: Its lanes.
    """

    kind: str
    value: int
    results: Mapping[int, str]
    variables: tuple[Variable, ...]

    @property
    def functions(self) -> set[str]:
        """Names of the functions of `calls.definitions` that its statements call."""
        folds = {
            "max": {"largest"},
            "min": {"smallest"},
            "argmax": {"largest", "first_place"},
            "argmin": {"smallest", "first_place"},
            "online": {"raised", "joined"},
        }
        return {"only"} | folds.get(self.kind, set())

    def starts(self, shape: str) -> list[str]:
        """Return statements that start all lanes; `shape` is the text of a tuple."""
        return [f"{v.name} = tl.full({shape}, {v.first}, tl.{v.dtype})" for v in self.variables]

    def takes(self, value: str, index: str, inside: str, full: str, shape: str) -> list[str]:
        """Return statements that start the lanes with the values of a tile.

        Args:
            value: Text of the values.
            index: Text of their numbers along what is reduced.
            inside: Text of the mask.
            full: Text of the constant that tells whether the mask may be left out.
            shape: Text of the tile's shape.
        """
        names = [variable.name for variable in self.variables]
        kept = f"only({value}, {inside}, {self.variables[0].first}, {full})"
        lines = [f"{names[0]} = {kept}"]
        if self.kind == "online":
            lines.append(
                f"{names[1]} = only(tl.full({shape}, 1.0, tl.float32), {inside}, 0.0, {full})"
            )
        elif self.kind.startswith("arg"):
            lines.append(f"{names[1]} = tl.broadcast_to({index}, {shape})")
        return lines

    def updates(self, value: str, index: str, inside: str, full: str) -> list[str]:
        """Return statements that take the values of one more tile into the lanes."""
        name = self.variables[0].name
        kept = f"only({value}, {inside}, {self.variables[0].first}, {full})"
        if self.kind == "sum":
            return [f"{name} += {kept}"]
        if self.kind == "peak":
            return [f"{name} = tl.maximum({name}, {kept})"]
        if self.kind in ("max", "min"):
            extreme = f"tl.{self.kind}imum"
            return [f"{name} = {extreme}({name}, {kept}, propagate_nan=tl.PropagateNan.ALL)"]
        number = self.value
        if self.kind == "online":
            total = self.variables[1].name
            return [
                f"{name}, before{number}, added{number} = raised({name}, {kept})",
                f"{total} = {total} * before{number} + added{number}",
            ]
        sign = ">" if self.kind == "argmax" else "<"
        new, place = f"new{number}", self.variables[1].name
        return [
            f"{new} = {kept}",
            f"better{number} = ({new} {sign} {name}) | (({new} != {new}) & ({name} == {name}))",
            f"{name} = tl.where(better{number}, {new}, {name})",
            f"{place} = tl.where(better{number}, {index}, {place})",
        ]

    def folds(self, axis: int = 1) -> list[str]:
        """Return statements that fold lanes along an axis, which is kept with size 1."""
        names = [variable.name for variable in self.variables]
        name = names[0]
        if self.kind == "sum":
            return [f"{name} = tl.sum({name}, {axis}, keep_dims=True)"]
        if self.kind == "peak":
            return [f"{name} = tl.max({name}, {axis}, keep_dims=True)"]
        if self.kind == "online":
            return [f"{name}, {names[1]} = joined({name}, {names[1]}, {axis})"]
        function = "largest" if self.kind in ("max", "argmax") else "smallest"
        best = f"{function}({name}, {axis})"
        if not self.kind.startswith("arg"):
            return [f"{name} = {best}"]
        return [
            f"best{self.value} = {best}",
            f"{names[1]} = first_place({name}, best{self.value}, {names[1]}, {axis})",
            f"{name} = best{self.value}",
        ]

    def closes(self) -> list[str]:
        """Return statements after the last fold: nothing was better than where it started."""
        if not self.kind.startswith("arg"):
            return []
        place = self.variables[1].name
        return [f"{place} = tl.where({place} == {_NOWHERE}, 0, {place})"]


def fields_of(terms: Terms, numbers: Sequence[int]) -> tuple[Field, ...]:
    """Return the fields of some reductions."""
    return tuple(_field(terms, number) for number in numbers)


def _field(terms: Terms, number: int) -> Field:
    kind, value = str(terms[number].payload), terms[number].args[0]
    if not kind.startswith("arg"):
        name = f"{kind}{number}"
        variable = Variable(name=name, first=_FIRSTS[kind], dtype="float32")
        return Field(kind=kind, value=value, results={number: name}, variables=(variable,))
    best = Variable(
        name=f"best_of{number}", first=_FIRSTS[kind.removeprefix("arg")], dtype="float32"
    )
    place = Variable(name=f"place{number}", first=_NOWHERE, dtype="int32")
    return Field(kind=kind, value=value, results={number: place.name}, variables=(best, place))


def online_field(schedule: Schedule, pair: tuple[int, int]) -> Field:
    """Return the field of a peak and the sum of the exponentials relative to it."""
    peak, total = pair
    return Field(
        kind="online",
        value=schedule.terms[peak].args[0],
        results={peak: f"peak{peak}", total: f"sum{total}"},
        variables=(
            Variable(name=f"peak{peak}", first=_LOWEST, dtype="float32"),
            Variable(name=f"sum{total}", first="0.0", dtype="float32"),
        ),
    )
