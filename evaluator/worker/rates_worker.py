"""The worker that measures what the device reaches, before anything else is measured on it."""

from __future__ import annotations

from typing import Any

import torch

from archives.evaluation import Status
from evaluator.worker.failures import Failure, describe
from evaluator.worker.rates import measure_rates
from evaluator.worker.serve import Handler

__all__ = ["RatesWorker"]


class RatesWorker:
    """Serves the one op of a worker that measures rates.

    Args:
        device: What it measures.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.handlers: dict[str, Handler] = {"rates": self._rates}

    def explain(self, error: Exception, request: dict[str, Any]) -> Failure:
        """Turn what the device raised into a failure."""
        del request
        return describe(error, file="", status=Status.RUNTIME_ERROR, reason="not_measured")

    def _rates(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        told: list[str] = []
        return {"rates": measure_rates(self._device, told.append).to_json(), "told": told}
