"""Reductions while they are under way: a value for each lane, and how lanes are folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from operators.sketches.patterns.expressions import Terms
from operators.sketches.patterns.online import Relative
from operators.sketches.patterns.schedule import Schedule

__all__ = ["Field", "Variable", "calm_field", "fields_of", "online_field"]

_LOWEST, _HIGHEST = 'float("-inf")', 'float("inf")'
_FIRSTS = {"sum": "0.0", "max": _LOWEST, "peak": _LOWEST, "min": _HIGHEST}
_NOWHERE = "2147483647"
_PLAIN = frozenset({"sum", "peak", "max", "min"})
"""Kinds of reductions that have one value for each lane."""


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
            exponentials relative to it, or "calm": the same, relative to 0 where it is infinite.
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
            "calm": {"calmed"},
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
        if self.kind in ("online", "calm"):
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
        number = self.value
        if self.kind in _PLAIN:
            return [self._combined(kept)]
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

    def joins(self, prefix: str) -> list[str]:
        """Return statements that take in lanes of the same names with a prefix before them.

        The field is no place of an extreme and not "online".
        """
        names = [variable.name for variable in self.variables]
        if self.kind in _PLAIN:
            return [self._combined(f"{prefix}{names[0]}")]
        assert self.kind == "calm", self.kind
        (peak, total), top = names, f"top{self.value}"
        rest = f"{prefix}{total} * tl.exp({prefix}{peak} - calmed({top}))"
        return [
            f"{top} = tl.maximum({peak}, {prefix}{peak})",
            f"{total} = {total} * tl.exp({peak} - calmed({top})) + {rest}",
            f"{peak} = {top}",
        ]

    def _combined(self, other: str) -> str:
        """The statement that takes other values into the lanes of a plain reduction."""
        name = self.variables[0].name
        if self.kind == "sum":
            return f"{name} += {other}"
        if self.kind == "peak":
            return f"{name} = tl.maximum({name}, {other})"
        extreme = f"tl.{self.kind}imum"
        return f"{name} = {extreme}({name}, {other}, propagate_nan=tl.PropagateNan.ALL)"

    def renamed(self, prefix: str) -> Field:
        """Return the same reduction with lanes of other names."""
        variables = tuple(replace(v, name=f"{prefix}{v.name}") for v in self.variables)
        return replace(self, variables=variables)

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
        if self.kind == "calm":
            return [
                f"top{self.value} = tl.max({name}, {axis}, keep_dims=True)",
                f"{names[1]} *= tl.exp({name} - calmed(top{self.value}))",
                f"{names[1]} = tl.sum({names[1]}, {axis}, keep_dims=True)",
                f"{name} = top{self.value}",
            ]
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
        variables=_pair(peak, total),
    )


def calm_field(terms: Terms, found: Relative) -> Field:
    """Return the field of a largest value and the sum of the exponentials relative to it.

    The lanes' sums are relative to 0 where their peaks are infinite; where the graph's are not,
    infinity less infinity makes them NaN. The lanes' peaks pass over NaN, which the sums show.
    """
    peak, total = variables = _pair(found.peak, found.total)
    largest, summed = peak.name, total.name
    if terms[found.peak].payload == "max":
        largest = f"tl.where({total.name} != {total.name}, {total.name}, {peak.name})"
    if not found.calm:
        infinite = f'tl.abs({peak.name}) == float("inf")'
        summed = f'tl.where({infinite}, float("nan"), {total.name})'
    return Field(
        kind="calm",
        value=terms[found.peak].args[0],
        results={found.peak: largest, found.total: summed},
        variables=variables,
    )


def _pair(peak: int, total: int) -> tuple[Variable, Variable]:
    return (
        Variable(name=f"peak{peak}", first=_LOWEST, dtype="float32"),
        Variable(name=f"sum{total}", first="0.0", dtype="float32"),
    )
