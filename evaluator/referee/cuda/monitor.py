"""Does the GPU run as it should? Its clock and what slows it, between two blocks.

Read through NVIDIA's management library where Python has it (nvidia-ml-py); where not, nothing is
seen here, and a device that changes its pace still shows in the reference's own times.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

__all__ = ["Monitor", "open_monitor"]

_SLOWED = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, thermal slowdown by software or hardware, power brake: not the power cap,
which is a steady state of many GPUs under load."""

Monitor = Callable[[], bool]
"""Tells whether the GPU is being slowed now."""


def open_monitor(uuid: str) -> Monitor | None:
    """Return a monitor for a GPU, or None where the library is missing or knows no such GPU."""
    try:
        library = importlib.import_module("pynvml")
        library.nvmlInit()
        handle = library.nvmlDeviceGetHandleByUUID(uuid)
        reasons = _reasons(library)
        reasons(handle)
    except (ImportError, AttributeError, OSError, RuntimeError):
        return None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pynvml":
            raise
        return None

    def slowed() -> bool:
        return bool(reasons(handle) & _SLOWED)

    return slowed


def _reasons(library: ModuleType) -> Callable[[object], int]:
    """The library's call, by its newer or older name."""
    newer = getattr(library, "nvmlDeviceGetCurrentClocksEventReasons", None)
    found: Callable[[object], int] = newer or library.nvmlDeviceGetCurrentClocksThrottleReasons
    return found
