"""A catalogue entry: one problem as data, before it is rendered at a scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from problems.errors import ProblemError
from problems.problem import DomainKind, Scale

__all__ = ["DRAWS", "Draw", "Entry", "InputEntry", "Size"]

Size = bool | int | float | str | tuple[int, ...]
"""A module-level constant: a literal, or an expression over the constants before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How an input is drawn, and the domain this puts it in.

    Attributes:
        lines: Python statements with {name}, {shape} and {upper} left open.
        domain: The domain of what is drawn.
        type: Annotation of the argument of `forward`.
    """

    lines: tuple[str, ...]
    domain: DomainKind
    type: str = "torch.Tensor"


_UNIFORM = "{name} = torch.rand({shape})"

DRAWS: Mapping[str, Draw] = MappingProxyType(
    {
        "uniform": Draw(lines=(_UNIFORM,), domain=DomainKind.REAL),
        "scaled_uniform": Draw(lines=(_UNIFORM + " * torch.rand(())",), domain=DomainKind.REAL),
        "symmetric": Draw(
            lines=(_UNIFORM, "{name} = ({name} + {name}.T) / 2"), domain=DomainKind.SYMMETRIC
        ),
        "upper_triangular": Draw(
            lines=("{name} = torch.triu(torch.rand({shape}))",), domain=DomainKind.UPPER_TRIANGULAR
        ),
        "lower_triangular": Draw(
            lines=("{name} = torch.tril(torch.rand({shape}))",), domain=DomainKind.LOWER_TRIANGULAR
        ),
        "softmax": Draw(
            lines=("{name} = torch.softmax(torch.rand({shape}), dim=-1)",),
            domain=DomainKind.PROBABILITY,
        ),
        "scaled_softmax": Draw(
            lines=("{name} = torch.softmax(torch.rand({shape}) * torch.rand(()), dim=-1)",),
            domain=DomainKind.PROBABILITY,
        ),
        "index": Draw(
            lines=("{name} = torch.randint(0, {upper}, ({shape},))",), domain=DomainKind.INDEX
        ),
        "mask": Draw(
            lines=("{name} = torch.randint(0, 2, ({shape})).bool()",), domain=DomainKind.MASK
        ),
        "sign": Draw(
            lines=("{name} = torch.randint(0, 2, ({shape},)).float() * 2 - 1",),
            domain=DomainKind.SIGN,
        ),
        "scalar": Draw(lines=(), domain=DomainKind.SCALAR, type="float"),
    }
)
"""Every way to draw an input, by the name used in the catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputEntry:
    """One input of a problem.

    Attributes:
        name: Name of the argument of `forward`; for a scalar, also of the constant it is.
        shape: Names of sizes, or numbers as text, outermost first.
        draw: A key of `DRAWS`.
        upper: For an index, the name of the size that bounds it.
    """

    name: str
    shape: tuple[str, ...] = ()
    draw: str = "uniform"
    upper: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One problem of the catalogue.

    Attributes:
        id: Number within the level, from 1.
        name: Name within the level.
        doc: What it computes, one line for the docstring of `Model`.
        inputs: The arguments of `forward`.
        sizes: Constants of the module at `official` scale, in order.
        small: The sizes that differ at `small` scale.
        tiny: The sizes that differ at `tiny` scale.
        init: Constants that `get_init_inputs` passes, under these names, to the constructor.
        options: Further arguments of the constructor, with their defaults.
        build: Body of the constructor.
        forward: Body of `forward`.
        notes: Flaws of the original that are reproduced or corrected, one line each.
        degenerate: Why the problem says little about a kernel, by the scale at which it does.
        loose: Why KernelBench's tolerance proves nothing of it, by the scale at which that is so.
    """

    id: int
    name: str
    doc: str
    inputs: tuple[InputEntry, ...]
    sizes: Mapping[str, Size]
    small: Mapping[str, Size]
    tiny: Mapping[str, Size]
    init: tuple[str, ...] = ()
    options: Mapping[str, Size] = field(default_factory=dict)
    build: str = ""
    forward: str
    notes: tuple[str, ...] = ()
    degenerate: Mapping[str, str] = field(default_factory=dict)
    loose: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> Entry:
        """Read an entry from its TOML table, the defaults of its file already merged in.

        Args:
            table: The table.
            where: File name, for messages.

        Raises:
            ProblemError: A field is missing, unknown or inconsistent.
        """
        label = f"{where}, problem {table.get('id', '?')}"
        unknown = set(table) - {each.name for each in fields(cls)}
        if unknown:
            raise ProblemError(f"{label}: unknown field {min(unknown)!r}")
        values: dict[str, Any] = {key: _frozen(value) for key, value in table.items()}
        try:
            values["inputs"] = tuple(
                InputEntry(**{**each, "shape": tuple(each.get("shape", ()))})
                for each in table["inputs"]
            )
            for key in ("sizes", "small", "tiny", "options"):
                if key in values:
                    values[key] = {name: _frozen(size) for name, size in values[key].items()}
            entry = cls(**values)
        except (TypeError, KeyError) as error:
            raise ProblemError(f"{label}: {error}") from error
        entry._check(label)
        return entry

    def sizes_at(self, scale: Scale) -> dict[str, Size]:
        """Return the module's constants at a scale, in order.

        Raises:
            ProblemError: The catalogue has no such scale.
        """
        changes: dict[Scale, Mapping[str, Size]] = {
            Scale.OFFICIAL: {},
            Scale.SMALL: self.small,
            Scale.TINY: self.tiny,
        }
        if scale not in changes:
            known = ", ".join(changes)
            raise ProblemError(f"the catalogue has no scale {scale.value!r}: choose one of {known}")
        return {**self.sizes, **changes[scale]}

    def _check(self, label: str) -> None:
        """Every name must be a size, every draw known."""
        used = {name for each in self.inputs for name in (*each.shape, each.upper)}
        used = {name for name in used if name and not name.isdigit()}
        used |= {each.name for each in self.inputs if each.draw == "scalar"}
        for name, reasons in (("degenerate", self.degenerate), ("loose", self.loose)):
            scales = set(reasons) - {scale.value for scale in Scale}
            if scales:
                raise ProblemError(f"{label}: unknown scale {min(scales)!r} under {name}")
        used |= {*self.init, *self.small, *self.tiny}
        unknown = used - set(self.sizes)
        if unknown:
            raise ProblemError(f"{label}: {min(unknown)!r} is not among its sizes")
        draws = {each.draw for each in self.inputs} - set(DRAWS)
        if draws:
            raise ProblemError(f"{label}: unknown draw {min(draws)!r}")


def _frozen(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
