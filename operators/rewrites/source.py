"""Triton kernels in a module's text: where they are, and how a piece of their text is replaced.

Rewrites edit the text and leave the rest of it as it is, so that people recognise their kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Edit", "Kernel", "Launch", "Module", "call_name", "edited", "parse_module"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A piece of text to be replaced.

    Attributes:
        start: First byte of the old text in the module's UTF-8 bytes.
        end: First byte behind it; `start` where something is inserted.
        text: The new text.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch `kernel[grid](...)`.

    Attributes:
        call: The call.
        grid: The expression in brackets.
    """

    call: ast.Call
    grid: ast.expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A function under `@triton.jit`.

    Attributes:
        node: Its definition.
        launches: Where it is launched; empty of a function that only kernels call.
    """

    node: ast.FunctionDef
    launches: tuple[Launch, ...]

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions by their dotted names, in the order of the text."""
        found = [
            node
            for node in ast.walk(self.node)
            if isinstance(node, ast.Call) and call_name(node) in names
        ]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module's text with the kernels in it.

    Attributes:
        source: The text.
        kernels: Its kernels, in order.
        starts: Offset of each line in the text's UTF-8 bytes.
    """

    source: str
    kernels: tuple[Kernel, ...]
    starts: tuple[int, ...]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the bytes that a node takes: first, and first behind."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Return a node's text as it is written."""
        start, end = self.span(node)
        return self.source.encode()[start:end].decode()

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        """Return the edit that puts a text in a node's place."""
        start, end = self.span(node)
        return Edit(start=start, end=end, text=text)

    def keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """Return the edit that sets a keyword argument of a call, or adds it."""
        for keyword in call.keywords:
            if keyword.arg == name:
                return self.replace(keyword.value, value)
        return self.appended(call, f"{name}={value}")

    def appended(self, call: ast.Call, text: str) -> Edit:
        """Return the edit that adds arguments to a call."""
        _, end = self.span(call)
        inner = self.source.encode()[: end - 1].rstrip()
        comma = "" if inner.endswith((b",", b"(")) else ", "
        return Edit(start=end - 1, end=end - 1, text=f"{comma}{text}")


def parse_module(source: str) -> Module | None:
    """Read a module's text; None where it does not parse or holds no kernel."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_jit(node)]
    kernels = tuple(
        Kernel(node=node, launches=tuple(_launches(tree, node.name))) for node in functions
    )
    starts = [0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return Module(source=source, kernels=kernels, starts=tuple(starts)) if kernels else None


def edited(module: Module, edits: Sequence[Edit]) -> str:
    """Return the text with some pieces replaced; they do not overlap."""
    data = module.source.encode()
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()


def call_name(call: ast.Call) -> str:
    """Return the dotted name of what is called; "" where it has none."""
    return _dotted(call.func)


def _is_jit(node: ast.FunctionDef) -> bool:
    names = [_dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
    return any(name in ("triton.jit", "jit") for name in names)


def _launches(tree: ast.Module, name: str) -> Iterator[Launch]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Subscript)
            and _dotted(node.func.value) == name
        ):
            yield Launch(call=node, grid=node.func.slice)


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""
