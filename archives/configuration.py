"""`TUNE_PARAMS` and `CONFIG` in a program's text: read them, edit them.

A program may declare two top-level literals: the space of its parameters and one point of it,

    TUNE_PARAMS = {"BLOCK": [512, 1024], "ONLINE": [False, True]}
    CONFIG = {"BLOCK": 1024, "ONLINE": True}

Editing replaces the text of the literal only; the rest of the source stays byte for byte.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from problems.syntax import parse

__all__ = [
    "Configuration",
    "Space",
    "configuration_statement",
    "read_configuration",
    "read_space",
    "with_configuration",
    "with_space",
    "without_configuration",
]

_MOST_BITS = 64

Configuration = Mapping[str, bool | int | float | str]
"""One point: a value for each parameter."""

Space = Mapping[str, Sequence[bool | int | float | str]]
"""The permitted values of each parameter, in order."""


def read_space(source: str) -> Space:
    """Return the declared space of a program; empty where it declares none.

    Only a literal dict of non-empty literal lists counts, with texts, booleans, finite numbers and
    whole ones of at most 64 bits; anything else is no declaration.
    """
    value = _literal(source, "TUNE_PARAMS")
    if not isinstance(value, dict):
        return {}
    space: dict[str, tuple[bool | int | float | str, ...]] = {}
    for name, choices in value.items():
        if not isinstance(name, str) or not isinstance(choices, list | tuple) or not choices:
            return {}
        if not all(_is_value(choice) for choice in choices):
            return {}
        space[name] = tuple(choices)
    return space


def read_configuration(source: str) -> Configuration:
    """Return the declared point of a program; empty where it declares none."""
    return dict(_point(source))


@lru_cache(maxsize=256)
def _point(source: str) -> Configuration:
    """The declared point; kept for longer than the tree, since many ask for it one by one."""
    value = _literal(source, "CONFIG")
    if not isinstance(value, dict):
        return {}
    if not all(isinstance(name, str) and _is_value(one) for name, one in value.items()):
        return {}
    return value


def with_configuration(source: str, configuration: Configuration) -> str:
    """Return the source with its `CONFIG` literal replaced.

    Parameters that `CONFIG` holds already keep their order, others follow by name: one point has
    one text, and so one identity, whatever the order of its mapping.

    Args:
        source: A module with a top-level `CONFIG = {...}`.
        configuration: The new point; its floats are finite.

    Raises:
        ValueError: The source does not parse or declares no `CONFIG`, or a value is infinite or
            no number at all, which no literal can say.
    """
    node = _assignment(source, "CONFIG")
    if node is None:
        raise ValueError("the source declares no top-level CONFIG literal to write to")
    for name, value in configuration.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"the parameter {name!r} is {value}, expected a finite number")
    declared = [name for name in read_configuration(source) if name in configuration]
    others = sorted(set(configuration) - set(declared))
    point = {name: configuration[name] for name in (*declared, *others)}
    return _replace(source, node, repr(point))


def with_space(source: str, space: Space) -> str:
    """Return the source with its `TUNE_PARAMS` literal replaced, one parameter a line.

    Args:
        source: A module with a top-level `TUNE_PARAMS = {...}`.
        space: The new space; its floats are finite.

    Raises:
        ValueError: The source does not parse or declares no `TUNE_PARAMS`.
    """
    node = _assignment(source, "TUNE_PARAMS")
    if node is None:
        raise ValueError("the source declares no top-level TUNE_PARAMS literal to write to")
    lines = "".join(f"    {name!r}: {list(choices)!r},\n" for name, choices in space.items())
    return _replace(source, node, "{\n" + lines + "}")


def without_configuration(source: str) -> str:
    """Return the source with its `CONFIG` emptied; unchanged where it declares none."""
    node = _assignment(source, "CONFIG")
    return source if node is None else _replace(source, node, "{}")


def configuration_statement(source: str) -> ast.Assign | ast.AnnAssign | None:
    """Return the statement that declares a program's `CONFIG`; None where there is none."""
    return _statement(source, "CONFIG")


def _is_value(value: object) -> bool:
    """Whether a value can be written back: 1e999 reads as infinite, a hex literal has no end."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= _MOST_BITS
    return isinstance(value, str)


def _assignment(source: str, name: str) -> ast.expr | None:
    """The value node of the last top-level `name = ...`, or None."""
    statement = _statement(source, name)
    return None if statement is None else statement.value


def _statement(source: str, name: str) -> ast.Assign | ast.AnnAssign | None:
    """The last top-level `name = ...`, or None."""
    try:
        tree = parse(source)
    except SyntaxError:
        return None
    for node in reversed(tree.body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name) and target.id == name:
            return node
    return None


def _literal(source: str, name: str) -> object:
    node = _assignment(source, name)
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _replace(source: str, node: ast.expr, text: str) -> str:
    """Replace the text of one node; columns of `ast` count UTF-8 bytes."""
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(len(line) for line in lines[: node.lineno - 1]) + node.col_offset
    end = sum(len(line) for line in lines[: node.end_lineno - 1]) + node.end_col_offset
    data = source.encode()
    return (data[:start] + text.encode() + data[end:]).decode()
