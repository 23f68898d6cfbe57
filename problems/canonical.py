"""A canonical form of Python source, the same on every Python version.

Two texts with one canonical form differ only in layout, comments and docstrings. `ast.dump` and
`ast.unparse` change between Python versions, so the walk here is our own: it skips positions,
docstrings and empty fields, and writes the rest as nested brackets.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from functools import cache

from problems.syntax import parse

__all__ = ["canonical_form", "canonical_forms", "digest"]

_SKIPPED_FIELDS = frozenset({"kind", "type_comment", "type_ignores", "ctx"})
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def canonical_form(source: str) -> str:
    """Return the canonical form of a Python module.

    Args:
        source: Text of one module. Text that does not parse is its own canonical form, with
            white space unified, so that a broken proposal still has an identity.

    Returns:
        A string that is equal for two sources exactly when their syntax trees agree up to
        positions, comments and docstrings.
    """
    parts: list[str] = []
    try:
        _walk(parse(source), parts)
    except (SyntaxError, RecursionError, ValueError):  # a whole number too long to be written
        return "unparsed:" + " ".join(source.split())
    return "".join(parts)


def canonical_forms(tree: ast.Module, old: ast.stmt, new: ast.stmt) -> tuple[str, str] | None:
    """Return two canonical forms for the work of one: a module's, and that with another statement.

    Args:
        tree: The module.
        old: One of its statements, no docstring.
        new: What stands in its place in the second form.

    Returns:
        The two forms, or None where a statement has none: then `canonical_form` takes the texts.
    """
    first: list[str] = []
    second: list[str] = []
    try:
        for statement in _without_docstring(tree, tree.body):
            piece = _form(statement)
            first.append(piece)
            second.append(_form(new) if statement is old else piece)
    except (RecursionError, ValueError):
        return None
    return _module(first), _module(second)


def digest(*parts: str) -> str:
    """Return the sha256 of several strings as 64 hexadecimal digits.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(str(len(data)).encode() + b":" + data)
    return state.hexdigest()


def _form(statement: ast.stmt) -> str:
    parts: list[str] = []
    _walk(statement, parts)
    return "".join(parts)


def _module(statements: Sequence[str]) -> str:
    """The form of a module from those of its statements, as `_walk` writes it."""
    if not statements:
        return "(Module)"
    return f"(Module body=[{','.join(statements)},])"


def _walk(node: ast.AST, parts: list[str]) -> None:
    """Write a node and what is below it; every candidate takes this way, so it is kept short."""
    add = parts.append
    if type(node) is ast.Name:  # half of all nodes
        add(f"(Name id={node.id!r})")
        return
    opening, fields = _written(type(node))  # type: ignore[arg-type] # a class is hashable
    add(opening)
    for name, label in fields:
        value = getattr(node, name, None)
        if value is None:
            continue
        if isinstance(value, ast.AST):
            add(label)
            _walk(value, parts)
        elif type(value) is not list:
            add(label + repr(value))
        elif value:
            add(label + "[")
            for item in _without_docstring(node, value) if name == "body" else value:
                if isinstance(item, ast.AST):
                    _walk(item, parts)
                else:
                    add(repr(item))
                add(",")
            add("]")
    add(")")


@cache
def _written(kind: type[ast.AST]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What a kind of node begins with, and the fields that count, each with its label."""
    fields = tuple((name, f" {name}=") for name in kind._fields if name not in _SKIPPED_FIELDS)
    return f"({kind.__name__}", fields


def _without_docstring(owner: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
    if not isinstance(owner, _BODIES) or not body:
        return body
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body
