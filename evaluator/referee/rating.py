"""Calibration: a worker measures what the device reaches, before anything else is timed there."""

from __future__ import annotations

import logging

from archives.rates import Rates
from evaluator.gate import Gate
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.wire import ChannelClosed, FrameError
from problems.errors import WorkerTimeout

__all__ = ["measured_rates"]

_LOG = logging.getLogger(__name__)


def measured_rates(
    spawner: Spawner, plan: WorkerPlan, gate: Gate, timeout_s: float
) -> Rates | None:
    """Return what a device reaches, measured while nothing else is timed on it.

    Args:
        spawner: Forks the worker.
        plan: How it is to run; its role is "rates" or "cuda_rates".
        gate: The device's timing gate.
        timeout_s: Seconds that it may take.

    Returns:
        None where it could not be measured, which a warning says: no ceiling is known then.

    Raises:
        EvaluatorError: No worker could be started.
    """
    with gate.exclusive():
        worker = spawner.spawn(plan)
        try:
            reply = worker.request("rates", timeout_s)
        except (ChannelClosed, FrameError, WorkerTimeout) as error:
            _LOG.warning("what the device reaches could not be measured: %s", error)
            return None
        finally:
            worker.end()
    if not reply["ok"]:
        _LOG.warning("what the device reaches could not be measured: %s", reply.get("log"))
        return None
    for sentence in reply["told"]:
        _LOG.warning("%s", sentence)
    return Rates.from_json(reply["rates"])
