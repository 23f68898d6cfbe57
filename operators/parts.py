"""Top-level functions and classes of a module: swap them between two modules, rename a class.

A part is exchangeable where both modules define it with the same signature and different code,
and where everything that it reads at the top level of its own module is either lacking in the new
home (then it comes along), the same there, or itself a part with the same signature.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from problems.canonical import canonical_form

__all__ = ["exchange", "exchangeable", "rename_class"]

_Part = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A module's text and its top-level definitions by name, in order."""

    source: str
    nodes: Mapping[str, ast.stmt]

    def text(self, node: ast.stmt) -> str:
        first, last = _lines(node)
        return "\n".join(self.source.split("\n")[first - 1 : last])

    def form(self, name: str) -> str:
        return canonical_form(self.text(self.nodes[name]))


def exchangeable(home: str, donor: str) -> list[str]:
    """Return the names of the donor's parts that could replace the home's.

    Args:
        home: Text of the module that would be changed.
        donor: Text of the module that would give.

    Returns:
        Names in the home's order; empty where there are none or a text does not parse.
    """
    here, there = _parse(home), _parse(donor)
    if here is None or there is None:
        return []
    return [
        name
        for name, node in here.nodes.items()
        if name in there.nodes
        and _signature(node) is not None
        and _signature(node) == _signature(there.nodes[name])
        and here.form(name) != there.form(name)
        and _needs(name, here, there) is not None
    ]


def exchange(home: str, donor: str, names: Sequence[str]) -> str:
    """Return the home's text with the named parts taken from the donor.

    Args:
        home: Text of the module to change; the rest of it stays, with line ends unified.
        donor: Text of the module that gives.
        names: Parts out of `exchangeable(home, donor)`.

    Raises:
        ValueError: A name is not exchangeable between the two.
    """
    here, there = _parse(home), _parse(donor)
    wrong = sorted(set(names) - set(exchangeable(home, donor)))
    if wrong or here is None or there is None:
        raise ValueError(f"not exchangeable between these modules: {', '.join(wrong)}")
    for name in [name for name in here.nodes if name in names]:
        first, last = _lines(here.nodes[name])
        lines = here.source.split("\n")
        taken = [*(_needs(name, here, there) or []), name]
        lines[first - 1 : last] = [there.text(there.nodes[need]) for need in taken]
        here = _parse("\n".join(lines))
        assert here is not None, "whole statements were exchanged"
    return here.source


def rename_class(source: str, old: str, new: str) -> str:
    """Return a module's text with a class renamed wherever its name is read or bound.

    Comments, strings and layout stay; line ends are unified.

    Raises:
        SyntaxError: The text is not a Python module.
        ValueError: The text holds a null byte.
    """
    source = _unified(source)
    tree = ast.parse(source)
    data = source.encode()
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    places = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            places.add(starts[node.lineno - 1] + node.col_offset)
        elif isinstance(node, ast.ClassDef) and node.name == old:
            places.add(data.index(old.encode(), starts[node.lineno - 1] + node.col_offset + 5))
    for place in sorted(places, reverse=True):
        # Python 3.11 places names inside f-strings wrongly: those are left alone.
        if data.startswith(old.encode(), place):
            data = data[:place] + new.encode() + data[place + len(old.encode()) :]
    return data.decode()


def _unified(source: str) -> str:
    return source.replace("\r\n", "\n").replace("\r", "\n")


def _parse(source: str) -> _Module | None:
    source = _unified(source)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    nodes: dict[str, ast.stmt] = {}
    for node in tree.body:
        for name in _defined(node):
            nodes[name] = node
    return _Module(source=source, nodes=nodes)


def _defined(node: ast.stmt) -> list[str]:
    """Names that a top-level statement binds."""
    if isinstance(node, _Part):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(a.asname or a.name).partition(".")[0] for a in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _signature(node: ast.stmt) -> str | None:
    """What callers rely on: name and arguments; of a class, those of its methods."""
    if isinstance(node, ast.ClassDef):
        methods = [_signature(m) or "" for m in node.body if isinstance(m, ast.FunctionDef)]
        bases = ", ".join(ast.dump(base) for base in node.bases)
        return f"class {node.name}({bases}): " + "; ".join(sorted(methods))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        arguments = node.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        stars = [f"*{a.arg}" for a in (arguments.vararg, arguments.kwarg) if a is not None]
        decorators = [ast.dump(decorator) for decorator in node.decorator_list]
        return f"{decorators} {node.name}({', '.join(names + stars)})"
    return None


def _needs(name: str, here: _Module, there: _Module) -> list[str] | None:
    """Names the part needs brought along, dependencies first; None where they would clash."""
    brought: list[str] = []
    visited = {name}

    def visit(current: str) -> bool:
        for read in _reads(there.nodes[current]):
            if read in visited or read not in there.nodes:
                continue
            visited.add(read)
            if read in here.nodes:
                if not _agrees(read, here, there, frozenset({read})):
                    return False
                continue
            if not visit(read):
                return False
            brought.append(read)
        return True

    return brought if visit(name) else None


def _agrees(name: str, here: _Module, there: _Module, visited: frozenset[str]) -> bool:
    """Tell whether a name may keep the home's meaning under the donor's part.

    A value has to be the same, and be made of the same values, in both modules.
    """
    node = there.nodes[name]
    signature = _signature(node)
    if name not in here.nodes or signature != _signature(here.nodes[name]):
        return False
    if signature is not None:
        return True
    reads = (read for read in _reads(node) if read in there.nodes and read not in visited)
    return here.form(name) == there.form(name) and all(
        _agrees(read, here, there, visited | {name}) for read in reads
    )


def _reads(node: ast.stmt) -> list[str]:
    """Names read anywhere inside a statement, each once, in order."""
    names = [
        child.id
        for child in ast.walk(node)
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
    ]
    return [name for name in dict.fromkeys(names) if not hasattr(builtins, name)]


def _lines(node: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, decorators included."""
    decorators = node.decorator_list if isinstance(node, _Part) else []
    assert node.end_lineno is not None
    return min([node.lineno, *(d.lineno for d in decorators)]), node.end_lineno
