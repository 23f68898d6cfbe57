"""Legs on a GPU: several calls in a row, each on a cold cache and between two events."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from archives.evaluation import Status
from evaluator.worker.cuda.driver import Driver
from evaluator.worker.failures import Failure

__all__ = ["Leg"]

_FLUSH_BYTE = 0x3C
_LEAD_IN = 8
"""Flushes before the first call: the device has turned to this process, and runs, when it comes."""


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
        self.clear()
        driver = self._driver
        if self._flush is None:
            self._flush = driver.flush_buffer()
        flush = self._flush
        events = [(driver.event(), driver.event()) for _ in arguments]
        outputs: list[object] = []
        keep = outputs.append
        for _ in range(_LEAD_IN):
            flush.fill_(_FLUSH_BYTE)
        driver.synchronize()
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
