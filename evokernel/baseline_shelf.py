"""Where baselines are kept, and which of them holds for a device.

A user's own lie in one folder, one file for each device, version of torch, level and scale; some of
well-known devices come with EvoKernel. A run takes the one that was measured on the same kind of
device with the same driver and torch, and knows most of its problems.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from archives.evaluation import DeviceFingerprint
from evokernel.baseline_file import load_baseline
from evokernel.baselines import Baseline, difference
from problems.errors import ConfigError
from problems.problem import Problem, Scale

__all__ = ["baseline_for", "own_folder", "own_path"]

_LOG = logging.getLogger(__name__)
_BUNDLED = Path(__file__).resolve().parent / "bundled"


def own_folder() -> Path:
    """Return the folder of the user's own baselines, which need not be there."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "evokernel" / "baselines"


def own_path(kind: str, level: int, scale: Scale) -> Path:
    """Return the file for a baseline of the device at hand.

    Args:
        kind: "cuda" or "cpu".
        level: Level of the problems.
        scale: Their scale.

    Raises:
        EvaluatorError: There is no such device.
    """
    device = _device(kind)
    threads = f"-{device.threads}-threads" if kind == "cpu" else ""
    torch = device.versions.get("torch", "none").partition("+")[0]
    driver = f"-driver-{device.versions['driver']}" if "driver" in device.versions else ""
    name = f"{device.name}{threads}-torch-{torch}{driver}-level{level}-{scale.value}"
    return own_folder() / f"{re.sub(r'[^a-z0-9.]+', '-', name.lower()).strip('-')}.json"


def baseline_for(device: DeviceFingerprint, problems: Sequence[Problem]) -> Baseline | None:
    """Return the baseline that was measured on such a device and knows most of some problems.

    Args:
        device: Where a run measures.
        problems: What it measures.

    Returns:
        None where none fits: measure one with `evokernel baseline`. Among equals the user's own.
    """
    best: Baseline | None = None
    most = 0
    for known in _all():
        if difference(known, device) is None:
            held = [known.of(problem) for problem in problems]
            count = sum(len(one.settings) for one in held if one is not None)
            if count > most:
                best, most = known, count
    return best


def _all() -> Iterator[Baseline]:
    """The user's own baselines, then those that come with EvoKernel."""
    for folder in (own_folder(), _BUNDLED):
        for path in sorted(folder.glob("*.json")):
            try:
                yield load_baseline(path)
            except ConfigError as error:
                _LOG.warning("left out: %s", error)


def _device(kind: str) -> DeviceFingerprint:
    if kind == "cuda":
        from evaluator.referee.cuda.device import fingerprint, gpu_of

        return fingerprint(gpu_of(0))
    from evaluator.referee.device import core_sets
    from evaluator.referee.device import fingerprint as cpu_fingerprint

    return cpu_fingerprint(core_sets().threads)
