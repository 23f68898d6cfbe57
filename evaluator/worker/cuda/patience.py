"""Memory that others have at the moment: whoever finds none waits a while and tries again.

Candidates of several problems share a device. Their memory is accounted for, but contexts, the
float64 forms of references and torch's cache only roughly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from evaluator.worker.cuda.driver import Driver
from evaluator.worker.serve import Handler

__all__ = ["patient", "patiently"]

T = TypeVar("T")
_PATIENCE_S, _PAUSE_S = 16.0, 0.5


def patiently(driver: Driver, work: Callable[[], T]) -> T:
    """Do something that may be done again; where there is no memory for it, later.

    Args:
        driver: Gives back what this process keeps unused.
        work: What is to be done.

    Raises:
        torch.OutOfMemoryError: There was none for a quarter of a minute.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end_s:
        try:
            return work()
        except torch.OutOfMemoryError:
            pass  # Its traceback holds what was there already: that goes first.
        driver.trim()
        time.sleep(_PAUSE_S)
    return work()


def patient(driver: Driver, handler: Handler) -> Handler:
    """Return a handler that waits for memory; see `patiently`."""

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        return patiently(driver, lambda: handler(request))

    return handle
