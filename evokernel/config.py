"""The configuration of a run: one frozen tree, and how its values are found.

A value is looked for in this order, the last one found wins:

    default < preset (configs/NAME.toml) < file < --set a.b=c < flag

`resolve` is the only place that knows this order; a file is for programs, which call it. Unknown
keys and values out of range are errors that say where the value came from and name the nearest
right one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evokernel.complaints import complaint
from problems.errors import ConfigError

__all__ = [
    "ArchiveConfig",
    "BudgetConfig",
    "EvaluationConfig",
    "OperatorsConfig",
    "ProblemsConfig",
    "RunConfig",
    "SearchConfig",
    "adjust",
    "preset_names",
    "resolve",
]

Value = bool | int | float | str
Setting = Value | tuple[Value, ...]


class Group(BaseModel):
    """A frozen group of settings that knows no others."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,  # "--set problems.ids=19" is read as a number
    )


class ProblemsConfig(Group):
    """Which problems, at which sizes."""

    level: int | None = Field(default=None, ge=1, le=4)
    """Level to run; None: the one file of `file`."""
    ids: str = ""
    """Ids within the level, such as "1,19-25"; empty: all."""
    source: str | None = None
    """Folder in KernelBench's layout; None: the bundled catalogue."""
    file: str | None = None
    """One problem file of the user's own."""
    seeds: str | None = None
    """Folder of human kernels to start from."""
    from_run: str | None = None
    """Folder of another run, whose elites are kernels to start from too."""
    scale: Literal["official", "small", "tiny"] | None = None
    """Sizes of bundled problems; None: official on a GPU, small on a CPU."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""


class SearchConfig(Group):
    """The shape of the search."""

    mode: Literal["evolution", "best-of-n"] = "evolution"
    """best-of-n spends the same budget on independent tries, as a baseline."""
    generations: int = Field(default=10, ge=0, le=100_000)
    """Generations after generation 0, which holds the seeds."""
    islands: int = Field(default=4, ge=1, le=64)
    """Sub-populations of each problem."""
    initial: int = Field(default=2, ge=0, le=64)
    """Parentless proposals of each island in generation 0, human seeds not counted."""
    proposals: int = Field(default=4, ge=1, le=256)
    """Children of each island in each later generation."""
    migration_interval: int = Field(default=3, ge=0, le=100_000)
    """Generations between migrations; 0: never."""
    migrants: int = Field(default=1, ge=1, le=16)
    """Elites that an island sends at a migration."""
    stagnation: int = Field(default=4, ge=1, le=100_000)
    """Generations without a gain after which an island changes its ways."""
    ceiling_share: float = Field(default=0.97, gt=0, le=1)
    """Share of what the device can do at which a problem counts as solved."""
    together: int = Field(default=0, ge=0, le=10_000)
    """Problems that advance together, generation by generation; 0: all of them."""


class OperatorsConfig(Group):
    """How children are made."""

    use: tuple[str, ...] = Field(default=("seed", "sketch", "tune", "splice"), min_length=1)
    """Names of operators, or "package.module:NAME" for one of your own."""
    floor: float = Field(default=0.1, ge=0, le=0.5)
    """Least share of any operator that applies."""
    memory: float = Field(default=0.7, ge=0, le=1)
    """How much of its credit an operator keeps from one generation to the next."""
    settings: dict[str, dict[str, Setting]] = {}
    """Settings of single operators by name, such as settings.tune.configurations = 4."""


class ArchiveConfig(Group):
    """What makes two candidates different."""

    axes: tuple[str, ...] = Field(default=("launches", "reuse", "work"), min_length=1, max_length=4)
    """Descriptors that span the grid."""


class EvaluationConfig(Group):
    """How candidates are judged."""

    actors: int = Field(default=1, ge=1, le=256)
    """Referees; those of one host take turns at its timed cores."""
    ray_address: str | None = None
    """Address of a Ray cluster that runs already; None: Ray is started on this machine."""
    verify: bool = True
    """Verify the best of each archive in fresh processes at its end."""
    verify_above: float = Field(default=1.02, ge=0)
    """Search speedup from which an elite is worth a verification."""
    verify_tries: int = Field(default=3, ge=1, le=100)
    """Elites of one problem that may fail their verification before it is left unverified."""
    failures: int = Field(default=8, ge=1, le=1000)
    """Failures of the evaluator itself in a row that end the run."""


class BudgetConfig(Group):
    """When to stop early."""

    max_minutes: float | None = Field(default=None, gt=0, le=1_000_000)
    """Minutes for the whole run, verification included; resuming starts a new count."""
    max_evaluations: int | None = Field(default=None, ge=1)
    """Search evaluations of the whole run; verification is not counted."""


class RunConfig(Group):
    """Everything that defines a run."""

    problems: ProblemsConfig = ProblemsConfig()
    search: SearchConfig = SearchConfig()
    operators: OperatorsConfig = OperatorsConfig()
    archive: ArchiveConfig = ArchiveConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    budget: BudgetConfig = BudgetConfig()
    rng_seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Root of all random streams of the search (never of the referee's secrets)."""


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
