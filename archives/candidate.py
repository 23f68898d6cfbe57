"""A candidate: the text of one kernel program, and its identity."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum

from archives.configuration import without_configuration
from problems.canonical import canonical_form, digest

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
        return cls(
            id=digest(problem_key, canonical_form(source)),
            program_id=digest(problem_key, canonical_form(without_configuration(source))),
            source=source,
            language=detect_language(source),
        )


def detect_language(source: str) -> Language:
    """Return the language a candidate's own kernels are written in.

    Read from the syntax tree: a `triton` import, a `CUDA_SOURCE` or `CPP_SOURCE` literal, or a
    call of `load_inline` with such sources. Text that does not parse counts as `TORCH`.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Language.TORCH
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    imports = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    if "CUDA_SOURCE" in names or "cuda_sources" in keywords:
        return Language.CUDA
    if "triton" in imports:
        return Language.TRITON
    if "CPP_SOURCE" in names or "cpp_sources" in keywords:
        return Language.CPP
    return Language.TORCH
