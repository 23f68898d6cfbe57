"""A candidate: the text of one kernel program, and its identity."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from archives.configuration import without_configuration
from problems.canonical import canonical_form, digest
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
    for language, signs in _SIGNS.items():
        # Most texts lack the very word, which spares the walk.
        if any(sign.strip("=").split()[-1] in source for sign in signs) and any(
            not signs.isdisjoint(_signs(node)) for node in ast.walk(tree)
        ):
            return language
    return Language.TORCH


_SIGNS: Mapping[Language, frozenset[str]] = MappingProxyType(
    {
        Language.CUDA: frozenset({"CUDA_SOURCE", "cuda_sources="}),
        Language.TRITON: frozenset({"import triton"}),
        Language.CPP: frozenset({"CPP_SOURCE", "cpp_sources="}),
    }
)


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
    form, language = _program(without_configuration(source))
    return Candidate(
        id=digest(problem_key, canonical_form(source)),
        program_id=digest(problem_key, form),
        source=source,
        language=language,
    )


@lru_cache(maxsize=256)
def _program(source: str) -> tuple[str, Language]:
    """Canonical form and language of a program; its many points share one text."""
    return canonical_form(source), detect_language(source)
