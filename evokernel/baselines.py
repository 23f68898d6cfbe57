"""Baselines: how fast torch itself does each problem, at every accuracy it offers.

A baseline belongs to one device, driver and version of torch. `matched_speedup` holds a candidate
against the fastest eager setting whose error is not above the candidate's, so that lower precision
never poses as a better kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from archives.evaluation import DeviceFingerprint
from problems.errors import ConfigError
from problems.problem import Problem

__all__ = [
    "COMPILED",
    "EAGER",
    "Baseline",
    "ProblemBaseline",
    "Setting",
    "check_device",
    "check_same",
    "difference",
    "matched_speedup",
    "settings_for",
    "speedup_over",
    "speedup_over_best",
    "strictest_ratio",
    "with_settings",
]

EAGER = ("eager", "eager_strict", "eager_tf32")
"""Settings without a compiler: torch's defaults, TF32 off and TF32 on."""

COMPILED = ("compile", "max_autotune")
"""`torch.compile`, and with mode="max-autotune-no-cudagraphs"; both at torch's defaults."""

_EQUAL_ERROR, _EQUAL_TIME = 1e-3, 0.05
"""Settings that differ by less on a problem compute the same there."""
_SAME_ERROR = 2.0
"""Errors up to this factor apart are the same: they vary with inputs and order of summation.

Source: our own measurements on an H200: those of TF32 and float32 are at least 25 apart.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One way in which torch was measured on a problem.

    Attributes:
        setting: "eager", "eager_strict", "eager_tf32", "compile" or "max_autotune".
        latency_ms: Median of one call with cold caches and fresh contents, ms; None: failed.
        error: Error against float64, root mean square over that of the output; None: not known.
        calls: Timed calls.
        build_s: Seconds of compiling and the first call.
        log: Why there is no time or no error, one line; else "".
    """

    setting: str
    latency_ms: float | None = None
    error: float | None = None
    calls: int = 0
    build_s: float = 0.0
    log: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemBaseline:
    """What torch reached on one problem.

    Attributes:
        key: Key of the problem.
        level: Its level.
        id: Its id within the level.
        name: Its name.
        settings: One for each setting that was asked for.
    """

    key: str
    level: int
    id: int
    name: str
    settings: tuple[Setting, ...]

    def latency_ms(self, setting: str) -> float | None:
        """Return the time of a setting; None where it was not measured."""
        return next((s.latency_ms for s in self.settings if s.setting == setting), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What torch reached on one device.

    Attributes:
        kind: "cuda" or "cpu".
        device: Model name of the device.
        threads: Threads that torch had on a CPU; else 0.
        scale: Scale of the problems.
        versions: Versions of torch, driver and others.
        date: Day of the measurement, ISO 8601.
        problems: One for each problem, in order.
    """

    kind: str
    device: str
    threads: int
    scale: str
    versions: Mapping[str, str]
    date: str
    problems: tuple[ProblemBaseline, ...] = field(default_factory=tuple)

    def of(self, problem: Problem) -> ProblemBaseline | None:
        """Return what is known of a problem; None where it was not measured."""
        return next((known for known in self.problems if known.key == problem.key), None)


def settings_for(kind: str) -> tuple[str, ...]:
    """Return the settings that make sense on a kind of device: a CPU has no TF32."""
    return (*EAGER, *COMPILED) if kind == "cuda" else ("eager", "compile")


def with_settings(problem: ProblemBaseline, rows: Sequence[Setting]) -> ProblemBaseline:
    """Return a problem's baseline with further settings, which replace those of the same name."""
    kept = {setting.setting: setting for setting in problem.settings}
    kept |= {setting.setting: setting for setting in rows}
    order = (*EAGER, *COMPILED)
    settings = sorted(kept.values(), key=lambda setting: order.index(setting.setting))
    return replace(problem, settings=tuple(settings))


def check_device(baseline: Baseline, device: DeviceFingerprint) -> None:
    """Refuse a baseline that was not measured where the run was.

    Raises:
        ConfigError: Kind, device, threads, driver or torch differ.
    """
    found = difference(baseline, device)
    if found is not None:
        name, there, here = found
        raise ConfigError(
            f"the baseline was measured with {name} {there}, the run with {here}: numbers of two "
            "never mix; measure one there with 'evokernel baseline'"
        )


def check_same(known: Baseline, found: Baseline) -> None:
    """Refuse to go on with a baseline of another device or other versions.

    Raises:
        ConfigError: Kind, device, threads, driver, torch or the scale of the problems differ.
    """
    here = DeviceFingerprint(
        kind=found.kind,
        name=found.device,
        uuid="",
        threads=found.threads,
        versions=dict(found.versions),
    )
    differs = difference(known, here)
    if differs is None and known.scale != found.scale:
        differs = ("scale", known.scale, found.scale)
    if differs is not None:
        name, there, now = differs
        raise ConfigError(
            f"the baseline that is to be continued was measured with {name} {there}, here is "
            f"{now}: numbers of two never mix; name another file with --out"
        )


def difference(baseline: Baseline, device: DeviceFingerprint) -> tuple[str, str, str] | None:
    """Return what differs between a baseline's device and another one.

    Returns:
        Its name, its value in the baseline and that of the device; None where nothing differs. A
        version that the device does not tell is no difference.
    """
    here = {"kind": device.kind, "device": device.name}
    there = {"kind": baseline.kind, "device": baseline.device}
    if device.kind == "cpu":
        here["threads"], there["threads"] = str(device.threads), str(baseline.threads)
    for name in ("torch", "driver"):
        here[name] = _release(device.versions.get(name, ""))
        there[name] = _release(baseline.versions.get(name, ""))
    for name, value in here.items():
        if value != there[name] and (value or name in ("kind", "device")):
            return name, there[name] or "unknown", value
    return None


def _release(version: str) -> str:
    """A version without what its builder added: packages and modules state it differently."""
    return version.partition("+")[0]


def matched_speedup(
    speedup: float, error: float | None, settings: Sequence[Setting]
) -> float | None:
    """Return the speedup against the fastest eager setting that is no less accurate.

    The speedup over torch's defaults was measured side by side; the baseline adds how the other
    setting compares with those. Where no setting is as accurate as the candidate, the fastest
    of the most accurate ones stands. A setting whose error is not known counts as accurate enough.

    Args:
        speedup: Measured against eager at torch's defaults.
        error: The candidate's error against float64, root mean square over that of the output;
            None: not known, so that every setting is one it would have to accept.
        settings: What torch reached on the problem.

    Returns:
        None where eager at torch's defaults was not measured.
    """
    eager = [s for s in settings if s.setting in EAGER and s.latency_ms is not None]
    default = next((s for s in eager if s.setting == "eager"), None)
    if default is None or default.latency_ms is None:
        return None
    # Twice the same computation is no choice: the faster of two times would be luck.
    eager = [s for s in eager if s is default or not _is_the_same(s, default)]
    accurate = [s for s in eager if _is_as_accurate(s, error)]
    if not accurate:
        least = min(s.error for s in eager if s.error is not None)
        accurate = [s for s in eager if s.error is not None and s.error <= _SAME_ERROR * least]
    fastest_ms = min(s.latency_ms for s in accurate if s.latency_ms is not None)
    return speedup * fastest_ms / default.latency_ms


def strictest_ratio(settings: Sequence[Setting]) -> float | None:
    """Return the largest ratio of matched to standard speedup that a candidate can have.

    That is the ratio for one as accurate as the most accurate eager setting.

    Args:
        settings: What torch reached on the problem.

    Returns:
        None where eager at torch's defaults was not measured.
    """
    timed = [s for s in settings if s.setting in EAGER and s.latency_ms is not None]
    least = min((s.error for s in timed if s.error is not None), default=None)
    return matched_speedup(1.0, least, settings)


def speedup_over(setting: str, speedup: float, settings: Sequence[Setting]) -> float | None:
    """Return the speedup against one setting, from the one against torch's defaults.

    Args:
        setting: Such as "compile".
        speedup: Measured against eager at torch's defaults.
        settings: What torch reached on the problem.

    Returns:
        None where that setting or eager at torch's defaults was not measured.
    """
    times = {s.setting: s.latency_ms for s in settings}
    wanted, default = times.get(setting), times.get("eager")
    return None if wanted is None or default is None else speedup * wanted / default


def speedup_over_best(speedup: float, settings: Sequence[Setting]) -> float | None:
    """Return the speedup against the fastest that torch offers at its defaults.

    That is the fastest of eager and the compiled settings, whose TF32 is that of the defaults.

    Args:
        speedup: Measured against eager at torch's defaults.
        settings: What torch reached on the problem.

    Returns:
        None where eager or one of the compiled settings was not measured.
    """
    found = [speedup_over(name, speedup, settings) for name in ("eager", *COMPILED)]
    known = [each for each in found if each is not None]
    return min(known) if len(known) == len(found) else None


def _is_the_same(setting: Setting, default: Setting) -> bool:
    """Tell whether a setting does not matter on a problem: same error, and nearly the same time."""
    if setting.error is None or default.error is None:
        return False
    assert setting.latency_ms is not None, "only what was timed is compared"
    assert default.latency_ms is not None, "only what was timed is compared"
    return math.isclose(setting.error, default.error, rel_tol=_EQUAL_ERROR) and math.isclose(
        setting.latency_ms, default.latency_ms, rel_tol=_EQUAL_TIME
    )


def _is_as_accurate(setting: Setting, error: float | None) -> bool:
    return error is None or setting.error is None or setting.error <= _SAME_ERROR * error
