"""Baselines as files: JSON that says what was measured, where, with what and when."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evokernel.baselines import Baseline, ProblemBaseline, Setting
from problems.errors import ConfigError

__all__ = ["load_baseline", "save_baseline"]

_FORMAT = 1


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _SettingRow(_Row):
    setting: str
    latency_ms: float | None
    error: float | None
    calls: int
    build_s: float
    log: str


class _ProblemRow(_Row):
    key: str
    level: int
    id: int
    name: str
    settings: list[_SettingRow]


class _File(_Row):
    format: int
    kind: str
    device: str
    threads: int
    scale: str
    versions: dict[str, str]
    date: str
    problems: list[_ProblemRow]


def save_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline, in one step: a reader finds the old file or the new one.

    Raises:
        ConfigError: The file cannot be written.
    """
    text = json.dumps({"format": _FORMAT, **asdict(baseline)}, indent=1, allow_nan=False)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(
            f"the baseline cannot be written to {path}: {error.strerror}: name another file"
        ) from error


def load_baseline(path: Path) -> Baseline:
    """Read a baseline.

    Raises:
        ConfigError: The file cannot be read, or is no baseline.
    """
    try:
        file = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the baseline {path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "its start"
        raise ConfigError(
            f"{path} is no baseline: {first['msg']} at {place}; make one with 'evokernel baseline'"
        ) from error
    if file.format != _FORMAT:
        raise ConfigError(
            f"the baseline {path} has format {file.format}, expected {_FORMAT}: measure it again "
            "with 'evokernel baseline'"
        )
    data = file.model_dump(exclude={"format", "problems"})
    problems = tuple(
        ProblemBaseline(
            **row.model_dump(exclude={"settings"}),
            settings=tuple(Setting(**setting.model_dump()) for setting in row.settings),
        )
        for row in file.problems
    )
    return Baseline(**data, problems=problems)
