"""A candidate: the text of one kernel program, and its identity."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from archives.configuration import configuration_statement, without_configuration
from problems.canonical import canonical_form, canonical_forms, digest
from problems.syntax import parse

__all__ = ["Candidate", "Language", "detect_language"]


class Language(StrEnum):
    """What a candidate's kernels are written in."""

    TORCH = "torch"
    """No kernel of its own: library calls only."""
    CPP = "cpp"
    TRITON = "triton"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One kernel program; content only.

    Attributes:
        id: sha256 of the problem key and the canonical source, 64 hex digits.
        program_id: The same with `CONFIG` left out: equal for all points of one program.
        source: Text of one module that defines `ModelNew`.
        language: What its kernels are written in.
    """

    id: str
    program_id: str
    source: str
    language: Language

    @classmethod
    def of(cls, problem_key: str, source: str) -> Candidate:
        """Build the candidate of a source text for a problem."""
        return _candidate(problem_key, source)


def detect_language(source: str) -> Language:
    """Return the language a candidate's own kernels are written in.

    Read from the syntax tree: a `triton` import, a `CUDA_SOURCE` or `CPP_SOURCE` literal, or a
    call of `load_inline` with such sources. Text that does not parse counts as `TORCH`.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return Language.TORCH
    return _language(source, tree, None)


_SIGNS: Mapping[Language, frozenset[str]] = MappingProxyType(
    {
        Language.CUDA: frozenset({"CUDA_SOURCE", "cuda_sources="}),
        Language.TRITON: frozenset({"import triton"}),
        Language.CPP: frozenset({"CPP_SOURCE", "cpp_sources="}),
    }
)


_WORDS: Mapping[Language, tuple[str, ...]] = MappingProxyType(
    {
        language: tuple(sign.strip("=").split()[-1] for sign in sorted(signs))
        for language, signs in _SIGNS.items()
    }
)


def _language(source: str, tree: ast.Module, but: ast.stmt | None) -> Language:
    """The language that a tree shows, one statement of it left aside."""
    for language, signs in _SIGNS.items():
        # Most texts lack the very word, and most others show it at their top: no walk is needed.
        if any(word in source for word in _WORDS[language]) and (
            any(_declares(statement, signs) for statement in tree.body)
            or any(not signs.isdisjoint(_signs(node)) for node in _nodes(tree, but))
        ):
            return language
    return Language.TORCH


def _declares(statement: ast.stmt, signs: frozenset[str]) -> bool:
    """Whether a statement is a plain assignment to one of the names, or an import."""
    if isinstance(statement, ast.Assign):
        return any(isinstance(name, ast.Name) and name.id in signs for name in statement.targets)
    return not signs.isdisjoint(_signs(statement))


def _nodes(tree: ast.Module, but: ast.stmt | None) -> Iterator[ast.AST]:
    """The nodes of a tree, those near its root first."""
    waiting: deque[ast.AST] = deque(node for node in tree.body if node is not but)
    while waiting:
        node = waiting.popleft()
        yield node
        waiting.extend(ast.iter_child_nodes(node))


def _signs(node: ast.AST) -> tuple[str, ...]:
    """What a node may say of the language: a name, a keyword with "=", modules after "import"."""
    match node:
        case ast.Name():
            return (node.id,)
        case ast.keyword():
            return (f"{node.arg}=",)
        case ast.Import():
            return tuple(f"import {alias.name.partition('.')[0]}" for alias in node.names)
        case ast.ImportFrom():
            return (f"import {(node.module or '').partition('.')[0]}",)
        case _:
            return ()


@lru_cache(maxsize=64)
def _candidate(problem_key: str, source: str) -> Candidate:
    """The candidate; operator and engine ask for it one after the other."""
    form, program, language = _read(source)
    return Candidate(
        id=digest(problem_key, form),
        program_id=digest(problem_key, program),
        source=source,
        language=language,
    )


def _read(source: str) -> tuple[str, str, Language]:
    """Canonical form of a text, that of its program, and its language, from one syntax tree."""
    statement = configuration_statement(source)
    if statement is None:
        form = canonical_form(source)
        return form, form, detect_language(source)
    program = copy(statement)
    program.value = ast.Dict(keys=[], values=[])
    tree = parse(source)
    forms = canonical_forms(tree, statement, program)
    if forms is None:
        forms = canonical_form(source), canonical_form(without_configuration(source))
    return *forms, _language(source, tree, statement)
