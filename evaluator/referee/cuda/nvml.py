"""NVIDIA's management library, as far as the referee asks it, by ctypes.

The library belongs to the driver, so that no package is needed for it. Nothing here makes a
context or changes a setting.

Source: NVIDIA, NVML API Reference Guide: nvmlInit_v2, nvmlDeviceGetHandleByUUID,
    nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetClockInfo, nvmlDeviceGetTemperature,
    nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetProcessUtilization.
"""

from __future__ import annotations

import ctypes
from typing import Any

from problems.errors import EvaluatorError

__all__ = ["Nvml", "NvmlError"]

_SM_CLOCK, _CORE_SENSOR = 1, 0
_NOT_FOUND = 6
_MOST_PROCESSES = 256


class NvmlError(EvaluatorError):
    """The library is missing, or a call of it fails."""


class _Running(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _Utilization(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("at_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class Nvml:
    """One GPU, as the library sees it."""

    def __init__(self, uuid: str, library: Any = None) -> None:  # noqa: ANN401 - a loaded library
        """Load the library and find the GPU.

        Args:
            uuid: Of the GPU.
            library: A loaded library; by default the driver's.

        Raises:
            NvmlError: There is no library, or it knows no such GPU.
        """
        try:
            self._library = library or ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise NvmlError(str(error)) from error
        self._device = ctypes.c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(self._device))

    def slowdown_reasons(self) -> int:
        """Return the bits of what lowers the clocks now."""
        reasons = ctypes.c_ulonglong()
        self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.byref(reasons))
        return int(reasons.value)

    def clock_mhz(self) -> int:
        """Return the clock of the multiprocessors."""
        clock = ctypes.c_uint()
        self._ask("nvmlDeviceGetClockInfo", _SM_CLOCK, ctypes.byref(clock))
        return int(clock.value)

    def temperature_c(self) -> int:
        """Return the core's temperature."""
        temperature = ctypes.c_uint()
        self._ask("nvmlDeviceGetTemperature", _CORE_SENSOR, ctypes.byref(temperature))
        return int(temperature.value)

    def running(self) -> frozenset[int]:
        """Return the processes that have a context on the GPU, as the driver numbers them."""
        count = ctypes.c_uint(_MOST_PROCESSES)
        found = (_Running * _MOST_PROCESSES)()
        self._ask("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), found)
        return frozenset(int(found[at].pid) for at in range(count.value))

    def busy_since(self, at_us: int) -> dict[int, int]:
        """Return the percentage of the multiprocessors' time that processes had, by their number.

        Args:
            at_us: Samples after this time count, in us since 1970.
        """
        count = ctypes.c_uint(_MOST_PROCESSES)
        found = (_Utilization * _MOST_PROCESSES)()
        name = "nvmlDeviceGetProcessUtilization"
        code = self._code(name, self._device, found, ctypes.byref(count), ctypes.c_ulonglong(at_us))
        if code == _NOT_FOUND:
            return {}
        _require(name, code)
        busy: dict[int, int] = {}
        for at in range(min(count.value, _MOST_PROCESSES)):
            one = found[at]
            if one.at_us > at_us:
                busy[int(one.pid)] = max(busy.get(int(one.pid), 0), int(one.sm))
        return busy

    def _ask(self, name: str, *arguments: object) -> None:
        self._call(name, self._device, *arguments)

    def _call(self, name: str, *arguments: object) -> None:
        _require(name, self._code(name, *arguments))

    def _code(self, name: str, *arguments: object) -> int:
        try:
            return int(getattr(self._library, name)(*arguments))
        except AttributeError as error:
            raise NvmlError(f"the library lacks {name}") from error


def _require(name: str, code: int) -> None:
    if code:
        raise NvmlError(f"{name} fails with code {code}")
