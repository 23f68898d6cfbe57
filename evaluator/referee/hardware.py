"""What devices can do at most: the table of datasheet rates.

The rates live in `hardware.toml`, each row with its source. Rows marked estimated serve reports and
plans, and never call a measured time impossible.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from problems.errors import ConfigError

__all__ = ["HARD_SLACK", "LAUNCH_FLOOR_MS", "Device", "all_devices", "find_device"]

HARD_SLACK = 0.97
"""For clocks and bandwidths of a GPU; see `roofline`."""
LAUNCH_FLOOR_MS = 0.002
"""Shortest time between two device events around one empty kernel, ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """Peak rates of one device model; a missing unit is None.

    Attributes:
        name: Short model name, such as "H200".
        match: Words of the driver's device name, all of which must occur.
        bandwidth_gbps: Device memory bandwidth, GB/s (10^9 bytes).
        fp32: Vector float32 rate, TFLOP/s.
        tf32: Matrix rate with TF32 operands, TFLOP/s, dense.
        fp16: Matrix rate with 16-bit operands, TFLOP/s, dense.
        fp8: Matrix rate with 8-bit floating-point operands, TFLOP/s, dense.
        l2_mb: Last-level cache, MB.
        source: Where the numbers come from.
        estimated: True where they were not checked against the vendor's document.
        slack: Share of the hard bound below which a time is impossible.
        floor_ms: Shortest time of a call that does nothing, ms.
        port_gbps: Rate at which its cores can load and store at most, whatever lies in a cache,
            GB/s; None: not known.
        warm: Whether inputs may lie in the last-level cache when a call begins.
    """

    name: str
    match: tuple[str, ...]
    bandwidth_gbps: float
    fp32: float
    l2_mb: float
    source: str
    tf32: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    estimated: bool = False
    slack: float = HARD_SLACK
    floor_ms: float = LAUNCH_FLOOR_MS
    port_gbps: float | None = None
    warm: bool = False

    def matrix_tflops(self, precision: str) -> float:
        """Return the fastest rate at which a product of this precision may be computed.

        For "fp32" that is the TF32 unit, or three 16-bit products for each float32 one (the
        accuracy rule admits both), or the vector units, whichever is fastest.

        Args:
            precision: "fp32", "fp16" or "bf16".
        """
        if precision == "fp32":
            return max(self.fp32, self.tf32 or 0.0, (self.fp16 or 0.0) / 3)
        return max(self.fp32, self.fp16 or 0.0)


@cache
def all_devices() -> tuple[Device, ...]:
    """Return the rows of the table, in order of matching."""
    table = tomllib.loads(files("evaluator.referee").joinpath("hardware.toml").read_text())
    return tuple(Device(**{**row, "match": tuple(row["match"])}) for row in table["device"])


def find_device(name: str) -> Device:
    """Return the row for a device name, as a person or a driver writes it.

    Raises:
        ConfigError: No row matches; the message lists the known names.
    """
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    for device in all_devices():
        if words.issuperset(word.lower() for word in device.match):
            return device
    known = ", ".join(device.name for device in all_devices())
    raise ConfigError(f"no device in the hardware table matches '{name}': expected one of {known}.")
