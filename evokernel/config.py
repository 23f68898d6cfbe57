"""The configuration of a run: one frozen tree, and how its values are found.

A value is looked for in this order, the last one found wins:

    default < preset (configs/NAME.toml) < file < --set a.b=c < flag

`resolve` is the only place that knows this order; a file is for programs, which call it. What can
be set at all stands in `evokernel.groups`. Unknown keys and values out of range are errors that say
where the value came from and name the nearest right one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evokernel.complaints import complaint
from evokernel.groups import (
    ArchiveConfig,
    BudgetConfig,
    EvaluationConfig,
    LlmConfig,
    OperatorsConfig,
    ProblemsConfig,
    RunConfig,
    SearchConfig,
)
from problems.errors import ConfigError

__all__ = [
    "ArchiveConfig",
    "BudgetConfig",
    "EvaluationConfig",
    "LlmConfig",
    "OperatorsConfig",
    "ProblemsConfig",
    "RunConfig",
    "SearchConfig",
    "adjust",
    "preset_names",
    "resolve",
]


def resolve(
    *,
    preset: str | None = None,
    file: Path | None = None,
    settings: Sequence[str] = (),
    flags: Mapping[str, object] | None = None,
) -> RunConfig:
    """Find the value of every setting.

    Args:
        preset: Name of a preset, or None.
        file: A TOML file with the tree of `RunConfig`, or None.
        settings: Texts "a.b=c" in the order given; the value is read as TOML, and as plain text
            where it is none.
        flags: Values by dotted name; None stands for a flag that was not given.

    Raises:
        ConfigError: A key is unknown, a value is out of range, or a file cannot be read.
    """
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if preset is not None:
        _overlay(tree, _read(_preset_path(preset)), f"preset {preset!r}", origins)
    if file is not None:
        _overlay(tree, _read(file), f"file {file}", origins)
    for text in settings:
        name, value = _parse_setting(text)
        _overlay(tree, _nest(name, value), f"--set {text}", origins)
    for name, value in (flags or {}).items():
        if value is not None:
            _overlay(tree, _nest(name, value), "command line", origins)
    return _validated(tree, origins)


def adjust(config: RunConfig, changes: Mapping[str, object]) -> RunConfig:
    """Return a configuration with other values.

    Args:
        config: A resolved configuration; it stays as it is.
        changes: Values by dotted name; None stands for a flag that was not given.

    Raises:
        ConfigError: A value is out of range.
    """
    tree = config.model_dump()
    origins: dict[str, str] = {}
    for name, value in changes.items():
        if value is not None:
            _overlay(tree, _nest(name, value), "command line", origins)
    return _validated(tree, origins)


def preset_names() -> tuple[str, ...]:
    """Return the names of all presets, sorted."""
    return tuple(sorted(path.stem for path in _preset_folder().glob("*.toml")))


def _validated(tree: Mapping[str, Any], origins: Mapping[str, str]) -> RunConfig:
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ConfigError(complaint(first, RunConfig, origins)) from error


def _preset_folder() -> Path:
    """In a wheel the presets lie in the package, in a checkout beside it."""
    package = Path(__file__).resolve().parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def _preset_path(name: str) -> Path:
    names = preset_names()
    if name in names:
        return _preset_folder() / f"{name}.toml"
    near = get_close_matches(name, names, 1, 0.3)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"there is no preset {name!r}: {hint}There are {', '.join(names)}.")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"the configuration file {path} cannot be read: {error.strerror}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} is not TOML: {error}") from error


def _parse_setting(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(
            f"--set {text}: expected NAME=VALUE with a dotted name, such as search.islands=6"
        )
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


def _nest(name: str, value: object) -> dict[str, Any]:
    head, _, rest = name.partition(".")
    return {head: _nest(rest, value) if rest else value}


def _overlay(
    tree: dict[str, Any],
    layer: Mapping[str, Any],
    origin: str,
    origins: dict[str, str],
    at: str = "",
) -> None:
    """Write a layer over the tree, and where each of its values came from."""
    for key, value in layer.items():
        name = f"{at}.{key}" if at else key
        if isinstance(value, dict) and isinstance(tree.setdefault(key, {}), dict):
            _overlay(tree[key], value, origin, origins, name)
        else:
            tree[key] = value
        origins[name] = origin
