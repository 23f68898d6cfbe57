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

__all__ = [
    "HARD_SLACK",
    "LAUNCH_FLOOR_MS",
    "Device",
    "all_devices",
    "find_device",
    "products_ms",
]

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
        return _matrix_rate(self.fp32, self.tf32, self.fp16, precision)


def _matrix_rate(fp32: float, tf32: float | None, fp16: float | None, precision: str) -> float:
    """Return the fastest rate at which a product may be computed; see `Device.matrix_tflops`.

    Args:
        fp32: Rate of the vector units in float32, TFLOP/s.
        tf32: Rate of products in TF32; None: there is no such unit.
        fp16: Rate of products of 16-bit numbers.
        precision: "fp32", "fp16" or "bf16".
    """
    if precision == "fp32":
        return max(fp32, tf32 or 0.0, (fp16 or 0.0) / 3)
    return max(fp32, fp16 or 0.0)


def products_ms(
    flops: int,
    convolution_flops: int,
    rates: tuple[float, float | None, float | None],
    precision: str,
) -> float:
    """Return the least time of matrix operations at some rates, ms.

    Where a device has TF32, torch convolves float32 in it by default. A float16 has as many bits of
    mantissa, ten, so the accuracy rule admits their products for convolutions: decision 0018.

    Args:
        flops: All of them.
        convolution_flops: Part of them that are convolutions'.
        rates: In float32, TF32 (None: no such unit) and of 16-bit numbers, TFLOP/s.
        precision: "fp32", "fp16" or "bf16".
    """
    fp32, tf32, fp16 = rates
    rate = _matrix_rate(fp32, tf32, fp16, precision)
    convolving = rate if tf32 is None else max(rate, fp16 or 0.0)
    return (flops - convolution_flops) / (rate * 1e9) + convolution_flops / (convolving * 1e9)


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
