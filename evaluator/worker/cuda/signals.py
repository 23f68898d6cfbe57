"""Two words of host memory by which legs are let go, and by which the device says that it is done.

A leg is *sealed*: its launches are queued behind a wait for the first word, and behind them a
write of the second one. No process needs to run while the device works, so that the time between
the two words is the device's alone, whatever the interpreter takes for a launch.

Source: NVIDIA, CUDA Driver API, Stream Memory Operations: cuStreamWaitValue32 and
    cuStreamWriteValue32 on host memory that was registered.
"""

from __future__ import annotations

import ctypes
from time import perf_counter

from evaluator.values import SIGNAL_BYTES
from evaluator.worker.cuda.driver import Driver

__all__ = ["DeviceSignals", "HostSignals"]

_LETTING_GO, _DONE = 0, 64
"""Where the words are in their page, in bytes: in cache lines of their own."""


class HostSignals:
    """The words as a processor sees them: lets go, and watches for the end.

    Args:
        address: Of the page, in this process.
    """

    def __init__(self, address: int) -> None:
        self._go = ctypes.c_uint32.from_address(address + _LETTING_GO)
        self._done = ctypes.c_uint32.from_address(address + _DONE)

    def let_go(self, ticket: int) -> None:
        """Let what waits for a ticket begin."""
        self._go.value = ticket

    def gone(self, ticket: int) -> bool:
        """Tell whether a ticket was let go."""
        return bool(self._go.value == ticket)

    def time_ms(self, ticket: int, limit_s: float) -> float | None:
        """Let go, and return the ms until the device says that it is done.

        Args:
            ticket: What the leg waits for.
            limit_s: How long to watch; None is returned afterwards.
        """
        done = self._done
        start = perf_counter()
        self._go.value = ticket
        while done.value != ticket:
            if perf_counter() - start > limit_s:
                return None
        return 1000 * (perf_counter() - start)


class DeviceSignals:
    """The words as the device sees them.

    Args:
        driver: The device.
        address: Of the page, in this process.
    """

    def __init__(self, driver: Driver, address: int) -> None:
        self._driver = driver
        self._device_address = driver.register(address, SIGNAL_BYTES)

    def hold(self, ticket: int) -> None:
        """Let the current stream wait until the ticket is let go."""
        self._driver.queue_wait(self._device_address + _LETTING_GO, ticket)

    def tell(self, ticket: int) -> None:
        """Let the current stream say that it has come here."""
        self._driver.queue_write(self._device_address + _DONE, ticket)
