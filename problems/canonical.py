"""A canonical form of Python source, the same on every Python version.

Two texts with one canonical form differ only in layout, comments and docstrings. `ast.dump` and
`ast.unparse` change between Python versions, so the walk here is our own: it skips positions,
docstrings and empty fields, and writes the rest as nested brackets.
"""

from __future__ import annotations

import ast
import hashlib

from problems.syntax import parse

__all__ = ["canonical_form", "digest"]

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
    except (SyntaxError, RecursionError):
        return "unparsed:" + " ".join(source.split())
    return "".join(parts)


def digest(*parts: str) -> str:
    """Return the sha256 of several strings as 64 hexadecimal digits.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    state = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(str(len(data)).encode() + b":" + data)
    return state.hexdigest()


def _walk(node: object, parts: list[str]) -> None:
    if isinstance(node, ast.AST):
        parts.append(f"({type(node).__name__}")
        for name, value in ast.iter_fields(node):
            if name in _SKIPPED_FIELDS or value is None or value == []:
                continue
            parts.append(f" {name}=")
            _walk(_without_docstring(node, value) if name == "body" else value, parts)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for item in node:
            _walk(item, parts)
            parts.append(",")
        parts.append("]")
    else:
        parts.append(repr(node))


def _without_docstring(owner: ast.AST, body: object) -> object:
    if not isinstance(owner, _BODIES) or not isinstance(body, list) or not body:
        return body
    first = body[0]
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body
