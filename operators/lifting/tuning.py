"""The parameters of a lifted program: those of its kernels, and which of two kernels to take."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from archives.configuration import Configuration, Space
from operators.lifting.generated import Generated
from operators.lifting.launches import Parameters, parameters_of
from problems.lifted import Lifted

__all__ = ["Tuning", "launches_of", "tuning_of"]

_MOST_TUNED = 6
"""Kernels whose parameters are declared; those of the others stay as Inductor chose."""

Value = bool | int | float | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What a program declares.

    Attributes:
        kernels: What each kernel that is launched is launched with.
        chosen: Text that reads which kernel is meant, by the name of one of Inductor's choices.
        space: `TUNE_PARAMS`.
        point: `CONFIG`.
    """

    kernels: Mapping[str, Parameters]
    chosen: Mapping[str, str]
    space: Space = field(default_factory=dict)
    point: Configuration = field(default_factory=dict)


def tuning_of(generated: Generated, lifted: Lifted) -> Tuning:
    """Return the parameters of a program.

    Args:
        generated: The output module.
        lifted: What is known of its kernels.

    Raises:
        Unliftable: Nothing is known of a parameter.
    """
    used = [name for name in generated.kernels if launches_of(generated, name)]
    tuned = sorted(used, key=lambda name: -_work(generated, name))[:_MOST_TUNED]
    kernels: dict[str, Parameters] = {}
    point: dict[str, Value] = {}
    space: dict[str, tuple[Value, ...]] = {}
    for number, name in enumerate(used):
        suffix = "" if len(used) == 1 else f"_{number}"
        found = parameters_of(generated.kernels[name], lifted.kernels.get(name), suffix)
        if name not in tuned:
            found = Parameters(names={}, space={}, point=found.point)
        kernels[name] = found
        point |= {full: found.point[one] for one, full in found.names.items()}
        space |= {full: found.space[one] for one, full in found.names.items()}
    chosen: dict[str, str] = {}
    for number, (name, alternatives) in enumerate(generated.choices.items()):
        full = "kernel" if len(generated.choices) == 1 else f"kernel_{number}"
        known = lifted.kernels.get(name)
        point[full] = known.picked.get("kernel", 0) if known else 0
        space[full] = tuple(range(len(alternatives)))
        chosen[name] = f'CONFIG["{full}"]'
    return Tuning(kernels=kernels, chosen=chosen, space=space, point=point)


def launches_of(generated: Generated, name: str) -> list[ast.Call]:
    """Return the launches of a kernel in the calling function, as one of a choice included."""
    callers = {name, *(choice for choice, ks in generated.choices.items() if name in ks)}
    return [
        node
        for node in ast.walk(generated.call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "run"
        and ast.unparse(node.func.value) in callers
    ]


def _work(generated: Generated, name: str) -> int:
    """How much a kernel does in one call, roughly: its sizes multiplied."""
    kernel = generated.kernels[name]
    if kernel.template:
        return math.prod(kernel.sizes.get(axis, 1) for axis in "MNK")
    total = 0
    for launch in launches_of(generated, name):
        values = [a.value for a in launch.args if isinstance(a, ast.Constant)]
        total += math.prod(max(1, value) for value in values if isinstance(value, int))
    return total
