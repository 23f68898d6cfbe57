"""What a candidate's own kernels are written in, read from its syntax tree."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from problems.syntax import parse

__all__ = ["Language", "detect_language", "language_of", "texts_of"]


class Language(StrEnum):
    """What a candidate's kernels are written in."""

    TORCH = "torch"
    """No kernel of its own: library calls only."""
    CPP = "cpp"
    TRITON = "triton"
    CUDA = "cuda"


_SIGNS: Mapping[Language, frozenset[str]] = MappingProxyType(
    {
        Language.CUDA: frozenset({"CUDA_SOURCE", "cuda_sources=", "CUDAExtension"}),
        Language.TRITON: frozenset({"import triton"}),
        Language.CPP: frozenset({"CPP_SOURCE", "cpp_sources=", "cpp_extension", "load_inline"}),
    }
)
"""Each of these alone is enough; the languages in the order in which they count."""

_EXTENSION = frozenset({"cpp_extension", "load_inline", "CppExtension"})
"""Names by which torch's builder of extensions is reached."""
_STARTERS = frozenset({"import ctypes", "import cupy", "import os", "import subprocess"})
"""Modules by which a compiler is started by hand, or what it made is loaded."""
_CUDA_TEXT = re.compile(r"\b(?:__global__|nvcc)\b")
_CUDA_FILE = re.compile(r"\.cuh?\b")
_CPP_TEXT = re.compile(r"\b(?:clang\+\+|clang|gcc|[cg]\+\+)(?![\w+])")

_WORDS: Mapping[Language, tuple[str, ...]] = MappingProxyType(
    {
        Language.CUDA: (
            *("CUDA_SOURCE", "cuda_sources", "CUDAExtension", "cpp_extension", "load_inline"),
            *("__global__", "nvcc"),
        ),
        Language.TRITON: ("triton",),
        Language.CPP: (
            *("CPP_SOURCE", "cpp_sources", "cpp_extension", "load_inline"),
            *("clang", "gcc", "g++", "c++"),
        ),
    }
)
"""Without one of these in its text, a candidate is not written in that language."""


def detect_language(source: str) -> Language:
    """Return the language a candidate's own kernels are written in.

    Read from the syntax tree, comments and docstrings left aside. CUDA C++ is a `CUDA_SOURCE`,
    CUDA sources of `load_inline`, or a text with `__global__` or nvcc where torch's `cpp_extension`
    or a compiler started by hand could build it. Triton is its import. C++ is a `CPP_SOURCE`, any
    other use of `cpp_extension`, or the name of a host compiler where one could be started. Of
    several the first one counts: what CUDA C++ is built with takes longest. Text that does not
    parse counts as `TORCH`.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return Language.TORCH
    return language_of(source, tree)


def language_of(source: str, tree: ast.Module, but: ast.stmt | None = None) -> Language:
    """Return the language that a syntax tree shows.

    Args:
        source: Text of the module.
        tree: Its syntax tree.
        but: A statement of it that is left aside.
    """
    seen: _Seen | None = None
    for language, signs in _SIGNS.items():
        # Most texts lack the very word, and most others show it at their top: no walk is needed.
        if not any(word in source for word in _WORDS[language]):
            continue
        if any(_declares(statement, signs) for statement in tree.body):
            return language
        seen = seen or _Seen.of(tree, but)
        if seen.shows(language):
            return language
    return Language.TORCH


def texts_of(tree: ast.Module, but: ast.stmt | None = None) -> list[str]:
    """Return the strings of a syntax tree, docstrings and other strings that stand alone left out.

    Args:
        tree: The tree of a module; of an f-string, the parts that are written out are strings.
        but: A statement of it that is left aside.
    """
    return _Seen.of(tree, but).texts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What was seen in a tree: names and the like, and strings."""

    signs: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, tree: ast.Module, but: ast.stmt | None) -> _Seen:
        """Look at all nodes of a tree."""
        seen = cls()
        for node in _nodes(tree, but):
            seen.signs.update(_signs(node))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                seen.texts.append(node.value)
        return seen

    def shows(self, language: Language) -> bool:
        """Whether that is enough for a language."""
        if not self.signs.isdisjoint(_SIGNS[language]):
            return True
        extends = not self.signs.isdisjoint(_EXTENSION)
        starts = extends or not self.signs.isdisjoint(_STARTERS)
        if language is Language.CUDA:
            return (starts and self._says(_CUDA_TEXT)) or (extends and self._says(_CUDA_FILE))
        return language is Language.CPP and starts and self._says(_CPP_TEXT)

    def _says(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(text) for text in self.texts)


def _declares(statement: ast.stmt, signs: frozenset[str]) -> bool:
    """Whether a statement is a plain assignment to one of the names."""
    if isinstance(statement, ast.Assign):
        return any(isinstance(name, ast.Name) and name.id in signs for name in statement.targets)
    return isinstance(statement, ast.Import | ast.ImportFrom) and not signs.isdisjoint(
        _signs(statement)
    )


def _nodes(tree: ast.Module, but: ast.stmt | None) -> Iterator[ast.AST]:
    """The nodes of a tree but strings that stand alone, those near its root first."""
    waiting: deque[ast.AST] = deque(node for node in tree.body if node is not but)
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _signs(node: ast.AST) -> tuple[str, ...]:
    """What a node may say: names, a keyword with "=", modules after "import" and as names."""
    match node:
        case ast.Name():
            return (node.id,)
        case ast.Attribute():
            return (node.attr,)
        case ast.keyword() if node.arg is not None and not _is_empty(node.value):
            return (f"{node.arg}=",)
        case ast.Call() if _name_of(node.func) == "load_inline":
            # Its first three arguments, where no keyword names them: name, C++, CUDA C++.
            written = zip(node.args[1:3], ("cpp_sources=", "cuda_sources="), strict=False)
            return tuple(sign for value, sign in written if not _is_empty(value))
        case ast.Import():
            paths = [alias.name.split(".") for alias in node.names]
            return tuple(sign for path in paths for sign in (f"import {path[0]}", path[-1]))
        case ast.ImportFrom():
            path = (node.module or "").split(".")
            return (f"import {path[0]}", path[-1], *(alias.name for alias in node.names))
        case _:
            return ()


def _name_of(node: ast.expr) -> str:
    """The name that is called, without what it belongs to; "" where it has none."""
    return getattr(node, "id", "") or getattr(node, "attr", "")


def _is_empty(value: ast.expr) -> bool:
    """Whether an argument is written as None, an empty string, or an empty list or tuple."""
    if isinstance(value, ast.List | ast.Tuple):
        return not value.elts or all(_is_empty(item) for item in value.elts)
    return isinstance(value, ast.Constant) and not value.value
