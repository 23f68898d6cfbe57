"""Sealed legs as the reference's process runs them: its own, and those of candidates.

A candidate's leg is queued in the candidate's process, behind a wait. Then its inputs are written,
all at once, and the wait is ended from here; here too it is seen when the device says that it is
done. A piece of one output is copied at once, before the candidate could do anything late.

Covered: times that a candidate's process forges, work put off until after the end, outputs made
before the inputs were there. Not covered: see docs/referee.md, On a GPU.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from evaluator.values import SIGNAL_BYTES
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.legs import Leg
from evaluator.worker.cuda.signals import DeviceSignals, HostSignals
from evaluator.worker.failures import Failure
from evaluator.worker.tensors import Memory

__all__ = ["Release", "SealedLegs", "piece_of"]

_OWN_PAGE = 0
_PIECE_BYTES = 1 << 20
_PIECES = 256
_STRIDES = 4099
"""Makes of one secret number a second one; a prime."""
_COPIES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What was seen when a candidate's leg was let go.

    Attributes:
        copy_ms: Time of the device in which its inputs were written, and the caches flushed.
        wall_ms: Time until the device said that it was done; None: it did not in time.
        late_ms: Time from then until a piece of an output was copied.
    """

    copy_ms: float
    wall_ms: float | None
    late_ms: float


class SealedLegs:
    """Lets legs go and times them.

    Args:
        driver: The device.
        memory: The shared memory "signals"; its first page is this process's own.
        leg: Keeps the outputs of this process's legs, and flushes the device's caches.
    """

    def __init__(self, driver: Driver, memory: Memory, leg: Leg) -> None:
        self._driver = driver
        self._memory = memory
        self._leg = leg
        self._own: DeviceSignals | None = None

    def own(
        self,
        forward: Callable[..., object],
        sets: Sequence[Sequence[object]],
        ticket: int,
        patience_s: float,
        limit_s: float,
    ) -> float | None:
        """Queue a leg of this process and time it.

        Args:
            forward: What is called.
            sets: Inputs of each call.
            ticket: A number not used before.
            patience_s: How long queueing may take: what waits for the device never ends by itself.
            limit_s: How long the leg may take.

        Returns:
            Its ms; None where it cannot be queued.
        """
        signals = HostSignals(self._page(_OWN_PAGE))
        self._leg.flush()
        self._driver.synchronize()
        rescue = threading.Timer(patience_s, lambda: signals.let_go(ticket))
        rescue.start()
        try:
            self._leg.queue(forward, sets, self._own_signals(), ticket)
        except Failure as failure:
            if failure.reason != "driver_error":
                raise
            # The driver cannot wait on host memory: nothing can be sealed here.
            return None
        finally:
            rescue.cancel()
            rescue.join()
        wall_ms = None if signals.gone(ticket) else signals.time_ms(ticket, limit_s)
        signals.let_go(ticket)
        self._driver.synchronize()
        return wall_ms

    def _own_signals(self) -> DeviceSignals:
        if self._own is None:
            self._own = DeviceSignals(self._driver, self._page(_OWN_PAGE))
        return self._own

    def release(
        self,
        page: int,
        ticket: int,
        limit_s: float,
        write_inputs: Callable[[], object],
        take_piece: Callable[[], object],
    ) -> Release:
        """Write a candidate's inputs, let its leg go, and time it.

        Args:
            page: Of its signals.
            ticket: What its leg waits for.
            limit_s: How long the leg may take.
            write_inputs: Queues the writing of its inputs; it is awaited, and the caches flushed,
                before the leg is let go.
            take_piece: Copies a piece of an output.
        """
        signals = HostSignals(self._page(page))
        self._driver.synchronize()
        # In one go: where the device has nothing to do between, it turns to whoever waits, and a
        # process that waits with two streams keeps it for some ms.
        start, end = self._driver.event(), self._driver.event()
        start.record()
        write_inputs()
        self._leg.flush()
        end.record()
        self._driver.synchronize()
        copy_ms = start.elapsed_time(end)
        wall_ms = signals.time_ms(ticket, limit_s)
        late_ms = 0.0 if wall_ms is None else self._timed_ms(take_piece)
        return Release(copy_ms=copy_ms, wall_ms=wall_ms, late_ms=late_ms)

    def copy_ms_per_byte(self) -> float:
        """Return the time that copying a byte on the device takes while nothing else runs."""
        buffer = self._driver.flush_buffer()
        half = len(buffer) // 2
        times = [self._timed_ms(lambda: buffer[:half].copy_(buffer[half:])) for _ in range(_COPIES)]
        return sorted(times)[_COPIES // 2] / half

    def _timed_ms(self, work: Callable[[], object]) -> float:
        start = perf_counter()
        work()
        self._driver.synchronize()
        return 1000 * (perf_counter() - start)

    def _page(self, number: int) -> int:
        return ctypes.addressof(self._memory.buffer()) + number * SIGNAL_BYTES


def piece_of(tensor: torch.Tensor, at: float) -> torch.Tensor:
    """Return a megabyte of a tensor, spread over it; all where it is smaller or not in a row.

    Whoever leaves out a part of an output, however large, has left out as large a part of this.

    Args:
        tensor: Any tensor.
        at: Where to begin, as a share of what could be left out, 0 to 1.

    Returns:
        A view of `_PIECES` rows, equally far from each other.
    """
    length = _PIECE_BYTES // tensor.element_size() // _PIECES
    whole = not tensor.is_floating_point() or not tensor.is_contiguous()
    if whole or tensor.numel() <= length * _PIECES:
        return tensor
    widest = tensor.numel() // _PIECES
    # Rows are often a power of two long: at equal distances of `widest` all would lie in the same
    # columns.
    stride = widest - int(at * _STRIDES % 1.0 * widest / 64)
    first = int(at * (tensor.numel() - (_PIECES - 1) * stride - length))
    offset = tensor.storage_offset() + first
    return tensor.as_strided((_PIECES, length), (stride, 1), offset)
