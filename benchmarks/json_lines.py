"""Files of JSON lines that grow line by line, of which a kill may leave the last one unfinished."""

from __future__ import annotations

import os
from pathlib import Path

from problems.errors import ConfigError

__all__ = ["drop_unfinished", "whole_lines"]


def whole_lines(path: Path) -> list[str]:
    """Return the lines of a file; a last one without its end is left out.

    Args:
        path: The file; where there is none, there are no lines.

    Raises:
        ConfigError: The file is not text.
    """
    whole, end, _ = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
    try:
        return whole.decode().split("\n") if end else []
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text: {error}") from error


def drop_unfinished(path: Path) -> None:
    """Cut off a last line without its end, so that another one can be added.

    Args:
        path: The file; it may be absent. Nobody else may be writing it.

    Raises:
        ConfigError: Nothing would be left, so that it may well be another kind of file.
    """
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if data and not whole:
        raise ConfigError(f"{path} holds no whole line: move it away, or take another file")
    if whole < len(data):
        os.truncate(path, whole)
