"""Legs on a GPU: several calls in a row, each on a cold cache and between two events.

Before a leg both sides read a byte of each page of its inputs, and of the last leg's outputs, whose
memory is used again. A device that was another process's must look all these pages up, which made
a kernel of 57 us up to half slower in the process that had not just written its inputs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.cuda.signals import DeviceSignals
from evaluator.worker.failures import Failure

__all__ = ["Leg"]

_FLUSH_BYTE = 0x3C
_PAGE_BYTES = 1 << 16
_TOGETHER = 128
_LEAD_IN = 8
"""Flushes before the first call: the device has turned to this process, and is busy, when it is
launched; else the events of the first call would see the interpreter wake up."""


class Leg:
    """The outputs of the last leg; the same code for reference and candidate.

    Writing four times the last-level cache before each call throws the inputs out of it, and keeps
    the device busy for longer than it takes to launch most calls: what the events see is the
    device's time then, not the interpreter's.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._flush: torch.Tensor | None = None
        self._outputs: list[object] = []

    def look_up(self, arguments: Sequence[Sequence[object]]) -> None:
        """Read a byte of each page of a leg's inputs, and of the outputs that are kept.

        Args:
            arguments: Inputs of each call of the leg that comes next.
        """
        pages = [page for values in arguments for value in values for page in _pages(value)]
        for output in self._outputs:
            items = output if isinstance(output, tuple | list) else (output,)
            pages += [page for item in items for page in _pages(item)]
        for first in range(0, len(pages), _TOGETHER):
            torch.cat(pages[first : first + _TOGETHER])
        self._driver.synchronize()

    def run(
        self, forward: Callable[..., object], arguments: Sequence[Sequence[object]]
    ) -> list[float]:
        """Call once per argument list, and keep the outputs.

        Args:
            forward: What is called.
            arguments: One list of inputs for each call.

        Returns:
            The ms between the events around each call.
        """
        driver = self._driver
        self.clear()
        flush = self._flush_buffer()
        events = [(driver.event(), driver.event()) for _ in arguments]
        outputs: list[object] = []
        keep = outputs.append
        for _ in range(_LEAD_IN):
            flush.fill_(_FLUSH_BYTE)
        gc.disable()
        try:
            for values, (start, end) in zip(arguments, events, strict=True):
                flush.fill_(_FLUSH_BYTE)
                start.record()
                keep(forward(*values))
                end.record()
            driver.synchronize()
        finally:
            gc.enable()
        self._outputs = outputs
        return [start.elapsed_time(end) for start, end in events]

    def queue(
        self,
        forward: Callable[..., object],
        arguments: Sequence[Sequence[object]],
        signals: DeviceSignals,
        ticket: int,
    ) -> None:
        """Call once per argument list behind a ticket, and keep the outputs; nothing is awaited.

        Args:
            forward: What is called.
            arguments: One list of inputs for each call; what they hold may come later.
            signals: Let the device wait, and say that it is done.
            ticket: What it waits for.
        """
        self.clear()
        outputs: list[object] = []
        keep = outputs.append
        gc.disable()
        try:
            signals.hold(ticket)
            for values in arguments:
                keep(forward(*values))
        except Exception:
            with suppress(Failure):
                # Whoever watches need not wait; a context that is lost says nothing more.
                signals.tell(ticket)
            raise
        finally:
            gc.enable()
        signals.tell(ticket)
        self._outputs = outputs

    def flush(self) -> None:
        """Throw what there is out of the device's caches."""
        self._flush_buffer().fill_(_FLUSH_BYTE)

    def clear(self) -> None:
        """Let go of the outputs that are kept."""
        self._outputs = []

    @property
    def outputs(self) -> Sequence[object]:
        """What the calls of the last leg returned."""
        return self._outputs

    def output(self, call: int) -> Any:  # noqa: ANN401 - whatever was returned
        """Return what a call of the last leg returned.

        Raises:
            Failure: The last leg has no such call.
        """
        if not 0 <= call < len(self._outputs):
            raise Failure(Status.RUNTIME_ERROR, "no_such_call", f"no call {call} in the last leg")
        return self._outputs[call]

    def _flush_buffer(self) -> torch.Tensor:
        if self._flush is None:
            self._flush = self._driver.flush_buffer()
        return self._flush


def _pages(value: object) -> list[torch.Tensor]:
    """A byte of each page of a tensor, where that is in a row; nothing of anything else."""
    if type(value) is not torch.Tensor or not value.is_contiguous() or not value.numel():
        return []
    if value.is_complex():
        value = torch.view_as_real(value)
    return [value.detach().view(-1).view(torch.uint8)[::_PAGE_BYTES]]
