"""What the C functions of a schedule take: tensors and plain numbers, in a fixed order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operators.sketches.cpp.emitter import C_TYPES
from operators.sketches.patterns.expressions import Load
from operators.sketches.patterns.schedule import Schedule

__all__ = ["Signature"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The parameters that all C functions of one schedule share.

    Attributes:
        names: Local variable in `forward` of each input, parameter and buffer; its parameter in
            C++ is called the same with "in_" before it.
        values: Tensors that are read or updated, in order of first use.
        scalars: Plain numbers that are read, in order of first use.
        types: C++ type of each tensor's parameter.
    """

    names: Mapping[str, str]
    values: tuple[str, ...]
    scalars: tuple[str, ...]
    types: Mapping[str, str]

    @classmethod
    def of(cls, schedule: Schedule, names: Mapping[str, str]) -> Signature:
        """Collect what a schedule reads and updates."""
        terms = schedule.terms
        needed = terms.needed([schedule.computation.output.term, *schedule.row_roots()])
        types: dict[str, str] = {}
        for number in needed:
            load = terms[number].payload
            if isinstance(load, Load):
                types[load.value] = f"const {C_TYPES[load.dtype]} *__restrict "
        for value, _ in schedule.computation.updates:
            types[value] = "float *"
        scalars = [str(terms[n].payload) for n in needed if terms[n].op == "scalar"]
        return cls(names=names, values=tuple(types), scalars=tuple(scalars), types=types)

    def parameters(self, *more: str) -> str:
        """Return the text of the parameters, further ones at the end."""
        texts = [f"{self.types[value]}in_{self.names[value]}" for value in self.values]
        texts += [f"float in_{self.names[value]}" for value in self.scalars]
        return ", ".join([*texts, *more])

    def arguments(self, *more: str) -> str:
        """Return the text of the arguments that hand the parameters on."""
        return ", ".join([f"in_{self.names[v]}" for v in (*self.values, *self.scalars)] + [*more])

    def letters(self) -> str:
        """Return the letters of the parameters, as in `Program.functions`."""
        return "p" * len(self.values) + "f" * len(self.scalars)

    def pointers(self) -> list[str]:
        """Return what Python passes for the parameters."""
        tensors = [f"{self.names[value]}.data_ptr()" for value in self.values]
        return tensors + [self.names[value] for value in self.scalars]
