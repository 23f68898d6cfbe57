"""Text of Triton kernels and of their launches, and what they take."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from operators.sketches.patterns.expressions import Load, Terms
from operators.sketches.patterns.schedule import Schedule

__all__ = ["Arguments", "chosen", "indented", "kernel", "launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the kernels of a schedule read and update besides their own tensors.

    Attributes:
        names: Local variable in `forward` of each input, parameter and buffer.
        values: Tensors that are read or updated, in order of first use; the first of them tells
            the device.
        scalars: Plain numbers that are read, in order of first use.
    """

    names: Mapping[str, str]
    values: tuple[str, ...]
    scalars: tuple[str, ...]

    @classmethod
    def of(cls, schedule: Schedule, names: Mapping[str, str]) -> Arguments | None:
        """Collect what a schedule reads and updates; None where it reads no tensor."""
        terms = schedule.terms
        needed = terms.needed([schedule.computation.output.term, *schedule.row_roots()])
        payloads = [terms[number].payload for number in needed]
        read = [payload.value for payload in payloads if isinstance(payload, Load)]
        read += [value for value, _ in schedule.computation.updates]
        scalars = [str(terms[number].payload) for number in needed if terms[number].op == "scalar"]
        if not read:
            return None
        return cls(names=names, values=tuple(dict.fromkeys(read)), scalars=tuple(scalars))

    @property
    def parameters(self) -> list[str]:
        """Names of the kernels' parameters."""
        tensors = [f"{self.names[value]}_ptr" for value in self.values]
        return tensors + [f"{self.names[value]}_value" for value in self.scalars]

    def needed(self, terms: Terms, roots: Iterable[int], known: Iterable[int]) -> Arguments:
        """Return those that some terms stand on, where others are known."""
        payloads = [terms[number].payload for number in terms.needed(roots, known)]
        read = {payload.value if isinstance(payload, Load) else payload for payload in payloads}
        return replace(
            self,
            values=tuple(value for value in self.values if value in read),
            scalars=tuple(value for value in self.scalars if value in read),
        )

    @property
    def passed(self) -> list[str]:
        """What `forward` passes for them."""
        return [self.names[v] for v in self.values] + [
            f"float({self.names[v]})" for v in self.scalars
        ]

    @property
    def device(self) -> str:
        """Text of the device that is used."""
        return f"{self.names[self.values[0]]}.device"


def kernel(
    name: str,
    summary: str,
    parameters: Iterable[str],
    constants: Iterable[str],
    body: Sequence[str],
) -> str:
    """Return the text of a kernel.

    Args:
        name: Its name.
        summary: Its docstring.
        parameters: Names of pointers and numbers.
        constants: Names of its compile-time parameters.
        body: Its statements.
    """
    listed = [*parameters, *(f"{constant}: tl.constexpr" for constant in constants)]
    head = f"def {name}({', '.join(listed)}):"
    if len(head) > 100:
        head = "\n".join([f"def {name}(", *_wrapped(listed, 96), "):"])
    return "\n".join(["@triton.jit", head, f'    """{summary}"""', *indented(body)])


def launch(
    name: str, grid: str, arguments: Iterable[str], constants: Mapping[str, str]
) -> list[str]:
    """Return the lines that launch a kernel.

    Args:
        name: Its name.
        grid: Text of the number of programs.
        arguments: Texts of pointers and numbers.
        constants: Texts of compile-time parameters and launch options, by name.
    """
    listed = [*arguments, *(f"{key}={value}" for key, value in constants.items())]
    line = f"{name}[({grid},)]({', '.join(listed)})"
    if len(line) <= 92:
        return [line]
    return [f"{name}[({grid},)](", *_wrapped(listed, 88), ")"]


def _wrapped(items: Sequence[str], width: int) -> list[str]:
    """Lines of a list, a comma at the end."""
    text = ", ".join(item.replace(" ", "\0") for item in items) + ","
    lines = textwrap.wrap(text, width - 4, break_long_words=False, break_on_hyphens=False)
    return indented(line.replace("\0", " ") for line in lines)


def chosen(*names: str) -> dict[str, str]:
    """Return compile-time parameters or launch options that come from `CONFIG`, by name."""
    return {name: f'CONFIG["{name}"]' for name in names}


def indented(lines: Iterable[str], width: int = 4) -> list[str]:
    """Return lines moved to the right."""
    return [" " * width + line if line else line for line in lines]
