"""What a module or a class binds at its top level, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

__all__ = ["bindings", "lacks_forward"]


def bindings(body: Sequence[ast.stmt]) -> dict[str, ast.stmt]:
    """Return what binds each name at the top level of a body, conditional blocks included."""
    bound: dict[str, ast.stmt] = {}
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                bound[node.name] = node
            case ast.Import() | ast.ImportFrom():
                bound.update({alias.asname or alias.name: node for alias in node.names})
            case ast.Assign():
                names = [name for target in node.targets for name in ast.walk(target)]
                bound.update({name.id: node for name in names if isinstance(name, ast.Name)})
            case ast.AnnAssign(target=ast.Name(id=name)):
                bound[name] = node
            case ast.If() | ast.Try() | ast.With():
                for part in ("body", "orelse", "finalbody"):
                    bound.update(bindings(getattr(node, part, [])))
    return bound


def lacks_forward(bound: Mapping[str, ast.stmt], name: str) -> bool:
    """Tell whether a class surely has no forward; bases from elsewhere may bring one.

    Args:
        bound: The bindings of its module.
        name: Name of the class.
    """
    return _lacks_forward(bound, name, frozenset())


def _lacks_forward(bound: Mapping[str, ast.stmt], name: str, seen: frozenset[str]) -> bool:
    node = bound.get(name)
    if not isinstance(node, ast.ClassDef) or name in seen:
        return name in seen
    if "forward" in bindings(node.body):
        return False
    bases = [base.id if isinstance(base, ast.Name) else ast.unparse(base) for base in node.bases]
    if not bases:
        return True
    plain = {"nn.Module", "torch.nn.Module", "Module"}
    return all(base in plain or _lacks_forward(bound, base, seen | {name}) for base in bases)
