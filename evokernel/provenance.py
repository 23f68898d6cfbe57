"""The device of a run: numbers that would not compare never mix in one run.

A GPU is measured by the device's own clock, at clocks that are watched, so that one of the same
model with the same software stands for another. Of a CPU no two hosts are alike.
"""

from __future__ import annotations

from archives.records import RunRecord
from archives.store import Store
from evaluator.evaluator import Capacity
from problems.errors import ConfigError

__all__ = ["of_another_referee", "settle_device"]

_SOFTWARE = ("torch", "triton", "cuda", "driver")
"""Versions on which the time of a kernel on a GPU depends."""


def settle_device(store: Store, run: RunRecord, capacity: Capacity) -> None:
    """Write down where a run measures, or check that it is where it measured before.

    Args:
        store: Open for writing.
        run: What the store says of the run.
        capacity: What the evaluator found here.

    Raises:
        ConfigError: The run was measured on another kind of GPU, with other software for it, on
            another CPU, with another number of threads or by another version of the referee.
    """
    if run.device is None:
        store.set_device(
            capacity.device,
            noise_floor=capacity.noise_floor,
            noisy=capacity.noisy,
            referee_version=capacity.referee_version,
            rates=capacity.rates,
        )
        return
    difference = _difference(run, capacity)
    if difference:
        raise ConfigError(
            f"the run {store.folder} cannot be resumed here, its numbers would not compare: "
            f"{difference}; resume it where it began, or start a new run with --from {store.folder}"
        )


def _difference(run: RunRecord, capacity: Capacity) -> str:
    """What differs between the run's measurements and those to be had here; "" for nothing."""
    assert run.device is not None
    then, now = run.device, capacity.device
    if then.kind == now.kind == "cuda":
        if then.name != now.name:
            return f"it was measured on {then}, this one is {now}"
        for part in _SOFTWARE:
            before, here = then.versions.get(part, "none"), now.versions.get(part, "none")
            if before != here:
                return f"it was measured with {part} {before}, here is {here}"
    elif then.uuid != now.uuid:
        return f"it was measured on {then} of another machine, this one is {now}"
    if then.threads != now.threads:
        return f"it was measured with {then.threads} threads, here are {now.threads}"
    return of_another_referee(run, capacity)


def of_another_referee(run: RunRecord, capacity: Capacity) -> str:
    """Name the run's version of the referee and the one here; "" where they are the same."""
    if run.referee_version == capacity.referee_version:
        return ""
    return (
        f"it was measured by referee {run.referee_version or 'unknown'}, this one is "
        f"{capacity.referee_version or 'unknown'}"
    )
