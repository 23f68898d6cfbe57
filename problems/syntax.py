"""Parsing of source text that is not ours."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache

__all__ = ["parse"]


@lru_cache(maxsize=64)
def parse(source: str) -> ast.Module:
    r"""Return the syntax tree of a module, for reading only: one tree serves all who ask.

    Other people's text may hold escapes such as "\d", which Python warns about: the warning is
    theirs, and stays away from our streams.

    Raises:
        SyntaxError: The text is no Python module.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:  # a null byte; too deep
            raise SyntaxError(str(error)) from error
