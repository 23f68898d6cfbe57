"""The deadlines of candidates, as a run was told them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from evokernel.groups import EvaluationConfig
from problems.errors import ConfigError

if TYPE_CHECKING:
    from archives.records import RunRecord
    from evaluator.referee.deadlines import Deadlines

__all__ = ["deadlines_of", "kept_deadlines"]


class _KeptLimits(BaseModel):
    """The only settings that are read here, whatever else the text of a configuration holds."""

    model_config = ConfigDict(extra="ignore")

    build_s: float | None = None
    check_s: float | None = None
    time_s: float | None = None


class _Kept(BaseModel):
    """The group that they are in."""

    model_config = ConfigDict(extra="ignore")

    evaluation: _KeptLimits = _KeptLimits()


def deadlines_of(config: EvaluationConfig, device: str) -> Deadlines:
    """Return how long each step of a candidate may take.

    Args:
        config: How candidates are judged.
        device: Kind of device, "cuda" or "cpu".
    """
    return _deadlines(config, device)


def kept_deadlines(run: RunRecord, device: str) -> Deadlines:
    """Return the same as a run keeps it; runs from before they could be set had the usual ones.

    Nothing else of the configuration is read, so that runs of other versions can be verified.

    Args:
        run: The run.
        device: Kind of device, "cuda" or "cpu".

    Raises:
        ConfigError: What it keeps are no seconds.
    """
    try:
        kept = _Kept.model_validate_json(run.config_json or "{}").evaluation
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"the configuration stored in the run {run.name!r} has {name} = {first['input']!r}, "
            "expected seconds: use the version that started the run"
        ) from error
    return _deadlines(kept, device)


def _deadlines(limits: EvaluationConfig | _KeptLimits, device: str) -> Deadlines:
    from evaluator.referee.deadlines import Deadlines

    return Deadlines.of(
        device, build_s=limits.build_s, check_s=limits.check_s, time_s=limits.time_s
    )
