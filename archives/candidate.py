"""A candidate: the text of one kernel program, and its identity."""

from __future__ import annotations

import ast
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from archives.configuration import configuration_statement, without_configuration
from archives.language import Language, detect_language, language_of
from problems.canonical import canonical_form, canonical_forms, digest
from problems.syntax import parse

__all__ = ["Candidate", "Language", "detect_language"]


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
    return *forms, language_of(source, tree, statement)
