"""The evaluator in this very process: one referee in a thread, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from archives.evaluation import Evaluation
from archives.rates import Rates
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evaluator.referee.calibration import Noise, measure_noise
from evaluator.referee.cpu import IN_FLIGHT
from evaluator.referee.referee import Referee, new_referee
from evaluator.referee.timing import LEAST_NOISE_FLOOR
from evaluator.sanitizing import Sanitized
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["IN_FLIGHT", "LocalEvaluator", "capacity_of"]


def capacity_of(
    referee: Referee, *, calibrate: bool, rate: bool | None = None, known: Rates | None = None
) -> Capacity:
    """Start a referee and tell what it can take.

    Args:
        referee: To be started.
        calibrate: Whether to measure the noise floor; else it is the least one.
        rate: Whether to measure what the device reaches; None: as `calibrate`.
        known: What it was measured to reach before; then that is not measured.

    Raises:
        EvaluatorError: It does not come up.
    """
    referee.start()
    quiet = Noise(floor=LEAST_NOISE_FLOOR, noisy=False)
    is_rated = calibrate if rate is None else rate
    rates = referee.calibrate(known) if is_rated or known is not None else None
    noise = measure_noise(referee) if calibrate else quiet
    return Capacity(
        device=referee.device,
        in_flight=referee.in_flight,
        noise_floor=noise.floor,
        memory_bytes=referee.memory_bytes,
        referee_version=referee.version,
        noisy=noise.noisy,
        rates=rates,
    )


_BREAK_OFF_S = 0.2


class LocalEvaluator:
    """One referee of this process; implements `evaluator.evaluator.Evaluator`."""

    def __init__(
        self,
        referee: Referee | None = None,
        *,
        device: str = "cpu",
        index: int = 0,
        calibrate: bool = False,
        rate: bool | None = None,
        rates: Rates | None = None,
    ) -> None:
        """Prepare it; processes start with `start`.

        Args:
            referee: The referee; by default one of the device, with its defaults.
            device: "cpu" or "cuda", where no referee is given.
            index: Number of the GPU, from 0, among those that this process may use.
            calibrate: Whether `start` measures this host's noise floor.
            rate: Whether `start` measures what the device reaches; None: as `calibrate`.
            rates: What it was measured to reach before, which is used then.

        Raises:
            EvaluatorError: There is no such device.
        """
        self._rates = rates
        self._referee = referee or new_referee(device, index)
        self._calibrate = calibrate
        self._rate = rate
        workers = self._referee.in_flight
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="referee")

    async def start(self) -> Capacity:
        """Start the referee; see `Evaluator.start`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads,
            lambda: capacity_of(
                self._referee, calibrate=self._calibrate, rate=self._rate, known=self._rates
            ),
        )

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Trace a problem; see `Evaluator.graph`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._referee.graph, problem)

    async def lint(self, problem: Problem) -> Lint:
        """Look for what makes a problem say little; see `Evaluator.lint`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._referee.lint, problem)

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Let Inductor compile a problem's reference; see `Evaluator.lift`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._referee.lift, problem, option_sets)

    async def sanitize(self, problem: Problem, source: str, tool: Path, check: str) -> Sanitized:
        """Call a candidate once under compute-sanitizer; see `Referee.sanitize`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._threads, self._referee.sanitize, problem, source, tool, check
        )

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Judge a candidate; see `Evaluator.evaluate`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._referee.evaluate, request)

    async def close(self) -> None:
        """End every process and thread; what is under way is broken off, and nobody hears of it."""
        loop = asyncio.get_running_loop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        ended = loop.run_in_executor(None, self._threads.shutdown)
        while not (await asyncio.wait([ended], timeout=_BREAK_OFF_S))[0]:
            self._referee.break_off()
        await loop.run_in_executor(None, self._referee.close)
