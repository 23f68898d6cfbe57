"""Which problems a run is about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from evokernel.devices import default_scale
from evokernel.groups import ProblemsConfig
from problems.catalogue import load_level, parse_ids
from problems.errors import ConfigError
from problems.loaders import load_file, load_folder
from problems.problem import Problem, Scale

__all__ = ["chosen_problems"]


def chosen_problems(
    config: ProblemsConfig, device: str
) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Load what a configuration names, at its sizes and in its precision.

    Args:
        config: Which problems.
        device: "cpu" or "cuda"; settles the sizes where none are asked for.

    Returns:
        The problems, and one sentence for each file that is none.

    Raises:
        ConfigError: The configuration names none, or contradicts itself.
        ProblemError: No file of a folder is a problem.
    """
    problems, complaints = _loaded(config, device)
    return tuple(replace(one, precision=config.precision) for one in problems), complaints


def _loaded(config: ProblemsConfig, device: str) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    if config.file is not None:
        if config.level is not None or config.source is not None or config.ids:
            raise ConfigError(
                "--problem-file is a run of its own: leave --level, --problems and --source out"
            )
        if config.scale is not None:
            raise ConfigError(
                "--scale is for bundled problems: a problem file states its own sizes"
            )
        return (load_file(Path(config.file)),), ()
    if config.level is None:
        raise ConfigError("nothing to run: name a level with --level 1, or --problem-file FILE")
    ids = parse_ids(config.ids) if config.ids else None
    if config.source is None:
        scale = Scale(config.scale) if config.scale else default_scale(device)
        return load_level(config.level, scale, ids), ()
    if config.scale is not None:
        raise ConfigError("--scale is for bundled problems: the files of --source state their own")
    problems, errors = load_folder(Path(config.source), config.level, ids)
    if not problems:
        raise errors[0]
    return tuple(problems), tuple(str(error) for error in errors)
