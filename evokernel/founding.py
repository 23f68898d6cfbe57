"""Founding: which programs a problem begins with, where each of them is to come once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from operators.founding import Founding
from operators.operator import Operator, OperatorContext

__all__ = ["founding"]


def founding(
    operators: Mapping[str, Operator], context_of: Callable[[str], OperatorContext]
) -> list[str]:
    """Name the operator of each program, in the order in which they come.

    Args:
        operators: By name, in the order in which they are used.
        context_of: Returns what an operator knows of the problem, by its name.
    """
    names: list[str] = []
    for name, operator in operators.items():
        if isinstance(operator, Founding):
            names += [name] * operator.num_programs(context_of(name))
    return names
