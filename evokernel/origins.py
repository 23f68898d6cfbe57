"""Where problems come from: the file behind each, so that a complaint can name it."""

from __future__ import annotations

from pathlib import Path

from evokernel.config import ProblemsConfig
from problems.problem import Problem

__all__ = ["located", "origin_of"]


def origin_of(problem: Problem, config: ProblemsConfig) -> Path | None:
    """Return the user's file that a problem was read from; None for a bundled one.

    The file need not exist any more: a run keeps the text.
    """
    if config.file is not None:
        return Path(config.file)
    if config.source is None:
        return None
    folder = Path(config.source)
    name = f"{problem.id}_{problem.name}.py"
    inside = folder / f"level{problem.level}"
    return (inside if inside.is_dir() else folder) / name


def located(problem: Problem, message: str, origin: Path | None) -> str:
    """Return what is wrong with a problem, with its file in front and its label left out.

    Args:
        problem: The problem; whoever prints the message names it.
        message: An error's text, which may begin with the problem's label.
        origin: The problem's file, where it has one.
    """
    plain = message.removeprefix(f"problem {problem.label} ")
    return plain if origin is None else f"{origin}: {plain}"
