"""A candidate: the text of one kernel program, and its identity."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

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
        form, language = _program(without_configuration(source))
        return cls(
            id=digest(problem_key, canonical_form(source)),
            program_id=digest(problem_key, form),
            source=source,
            language=language,
        )


def detect_language(source: str) -> Language:
    """Return the language a candidate's own kernels are written in.

    Read from the syntax tree: a `triton` import, a `CUDA_SOURCE` or `CPP_SOURCE` literal, or a
    call of `load_inline` with such sources. Text that does not parse counts as `TORCH`.
    """
    try:
        tree = parse(source)
    except SyntaxError:
        return Language.TORCH
    names: set[str] = set()
    keywords: set[str | None] = set()
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.keyword):
            keywords.add(node.arg)
        elif isinstance(node, ast.Import):
            imports |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports.add((node.module or "").partition(".")[0])
    if "CUDA_SOURCE" in names or "cuda_sources" in keywords:
        return Language.CUDA
    if "triton" in imports:
        return Language.TRITON
    if "CPP_SOURCE" in names or "cpp_sources" in keywords:
        return Language.CPP
    return Language.TORCH


@lru_cache(maxsize=256)
def _program(source: str) -> tuple[str, Language]:
    """Canonical form and language of a program; its many points share one text."""
    return canonical_form(source), detect_language(source)
