"""The settings of an operator: what may be set, within which range, and what holds otherwise.

An operator declares its settings in an attribute `settings`, a tuple; one of somebody else's may
do without, and then gets whatever the configuration holds for it, unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from problems.errors import ConfigError

__all__ = ["CONFIGURATIONS", "Setting", "check_settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: a whole number.

    Attributes:
        name: Its name in the operator's group of the configuration.
        default: What holds where nothing is said.
        least: The smallest permitted value.
        most: The largest permitted value.
    """

    name: str
    default: int
    least: int
    most: int

    def of(self, settings: Mapping[str, object]) -> int:
        """Return the value in checked settings."""
        value = settings.get(self.name, self.default)
        assert isinstance(value, int), f"{self.name} was checked when the run was planned"
        return value

    def problem_with(self, value: object) -> str:
        """Return what is wrong with a value, and the nearest right one; "" where nothing is."""
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is wrong: expected a whole number from {self.least} to {self.most}"
        if value < self.least:
            return f"is out of range: expected at least {self.least}, the nearest is {self.least}"
        if value > self.most:
            return f"is out of range: expected at most {self.most}, the nearest is {self.most}"
        return ""


CONFIGURATIONS = Setting(name="configurations", default=4, least=1, most=64)
"""Points of a program's space that one proposal asks to be tried."""


def check_settings(operator: object, name: str, given: Mapping[str, object]) -> None:
    """Check what a configuration sets for an operator.

    Args:
        operator: The operator.
        name: Its name.
        given: Values by name of the setting.

    Raises:
        ConfigError: The operator declares no such setting, or a value is out of its range.
    """
    declared = getattr(operator, "settings", None)
    if declared is None:
        return
    known = {setting.name: setting for setting in declared}
    for key, value in given.items():
        full = f"operators.settings.{name}.{key}"
        if key not in known:
            near = get_close_matches(key, known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else ""
            known_here = f"known here are {', '.join(known)}" if known else "it has none"
            raise ConfigError(f"unknown setting {full!r}: {hint or known_here}")
        wrong = known[key].problem_with(value)
        if wrong:
            raise ConfigError(f"{full} = {value!r} {wrong}")
