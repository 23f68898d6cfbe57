"""The pool: referees in Ray actors, on this machine or on a cluster.

One queue feeds every actor. An actor takes several requests at a time: candidates are built and
checked while another one is timed. A problem goes where it is open already, if there is room. An
actor that dies is replaced, and what it was doing is tried once more elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, TypeVar

from archives.evaluation import Evaluation, Status
from archives.rates import Rates
from evaluator.actor import Answer, RefereeActor, unpack
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from problems.errors import EvaluatorError
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["Pool"]

T = TypeVar("T")
MAX_IN_FLIGHT = 16
"""Requests that an actor of any device takes at most."""
REMEMBERED_PROBLEMS = 8
TRIES = 2
_LOG = logging.getLogger(__name__)


class _ActorDied(Exception):
    """The actor of a seat died while it worked."""


@dataclass(slots=True, kw_only=True)
class _Seat:
    """One actor.

    Attributes:
        actor: Ray's handle.
        room: Requests that it takes at a time.
        busy: Requests that it works on.
        problems: Keys of the problems it has open, most recent last.
        rates: What its device was measured to reach, for whoever takes its place.
    """

    actor: Any
    room: int = 1
    busy: int = 0
    problems: OrderedDict[str, None] = field(default_factory=OrderedDict)
    rates: Rates | None = None


class Pool:
    """Referees in Ray actors; implements `evaluator.evaluator.Evaluator`."""

    def __init__(
        self,
        *,
        device: str = "cpu",
        num_actors: int | None = None,
        address: str | None = None,
        calibrate: bool = True,
        rates: Rates | None = None,
    ) -> None:
        """Prepare it; nothing starts before `start`.

        Args:
            device: What each referee measures on: "cpu" or "cuda".
            num_actors: Referees; by default one, or one for each GPU that Ray has. On one host
                those of a CPU take turns at the timed cores.
            address: Of a running Ray cluster; None: start Ray on this machine.
            calibrate: Whether `start` measures the noise floor and what each device reaches.
            rates: What the devices were measured to reach before, as a resumed run knows.
        """
        self._device = device
        self._num_actors = num_actors
        self._version = ""
        self._address = address
        self._calibrate = calibrate
        self._rates = rates
        self._seats: list[_Seat] = []
        self._free = asyncio.Condition()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._ours = False

    async def start(self) -> Capacity:
        """Start Ray and the referees; see `Evaluator.start`."""
        await asyncio.to_thread(self._start_ray)
        self._seats = [
            _Seat(actor=self._new_actor(self._rates), rates=self._rates)
            for _ in range(self._actors_wanted())
        ]
        capacities: list[Capacity] = []
        if self._device == "cuda":
            # Side by side, as they will judge: each GPU has cores and a gate of its own.
            capacities += await asyncio.gather(*(self._start_seat(seat) for seat in self._seats))
        else:
            for seat in self._seats:
                # One after the other: they share the cores that are timed.
                capacities.append(await self._start_seat(seat))
        first = capacities[0]
        self._version = first.referee_version
        return replace(
            first,
            in_flight=sum(capacity.in_flight for capacity in capacities),
            noise_floor=max(capacity.noise_floor for capacity in capacities),
            noisy=any(capacity.noisy for capacity in capacities),
        )

    async def _start_seat(self, seat: _Seat) -> Capacity:
        answer: Answer[Capacity] = await _result(seat.actor.start.remote(calibrate=self._calibrate))
        capacity = unpack(answer)
        seat.room = min(capacity.in_flight, MAX_IN_FLIGHT)
        seat.rates = capacity.rates
        return capacity

    async def actor_pids(self) -> list[int]:
        """Return the process of each actor, for whoever watches them."""
        return [await _result(seat.actor.pid.remote()) for seat in self._seats]

    async def graph(self, problem: Problem) -> OperatorGraph:
        """Trace a problem; see `Evaluator.graph`."""
        answer: Answer[OperatorGraph] = await self._asked(
            f"traced {problem.label}", problem, lambda actor: actor.graph.remote(problem)
        )
        return unpack(answer)

    async def lint(self, problem: Problem) -> Lint:
        """Look for what makes a problem say little; see `Evaluator.lint`."""
        answer: Answer[Lint] = await self._asked(
            f"looked at {problem.label}", problem, lambda actor: actor.lint.remote(problem)
        )
        return unpack(answer)

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        """Let Inductor compile a problem's reference; see `Evaluator.lift`."""
        answer: Answer[tuple[Lifted, ...]] = await self._asked(
            f"let Inductor compile {problem.label}",
            problem,
            lambda actor: actor.lift.remote(problem, option_sets),
        )
        return unpack(answer)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Judge a candidate; see `Evaluator.evaluate`."""
        try:
            answer: Answer[Evaluation] = await self._with_seat(
                request.problem.key, lambda actor: _result(actor.evaluate.remote(request))
            )
        except _ActorDied:
            return Evaluation(
                status=Status.CRASHED,
                reason="evaluator_died",
                log="The evaluator's own process died twice while it judged this candidate.",
                referee_version=self._version,
            )
        return unpack(answer)

    async def close(self) -> None:
        """End every actor and, where the pool started it, Ray."""
        seats, self._seats = self._seats, []
        for seat in seats:
            try:
                await asyncio.wait_for(_result(seat.actor.close.remote()), timeout=10)
            except (TimeoutError, _ActorDied):
                _LOG.warning("an evaluator process did not end in time: it is killed")
        await asyncio.to_thread(self._stop_ray, [seat.actor for seat in seats])

    async def _asked(self, what: str, problem: Problem, ask: Callable[[Any], Any]) -> T:
        """Ask some actor about a problem itself.

        Raises:
            EvaluatorError: Two actors died over it.
        """
        try:
            return await self._with_seat(problem.key, lambda actor: _result(ask(actor)))
        except _ActorDied as error:
            raise EvaluatorError(f"the evaluator's process died twice while it {what}") from error

    async def _with_seat(self, key: str, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run a request on some actor; once more where the actor dies.

        Raises:
            _ActorDied: It died both times.
        """
        for attempt in range(1, TRIES + 1):
            seat = await self._take(key)
            actor = seat.actor
            try:
                return await work(actor)
            except _ActorDied:
                _LOG.warning("an evaluator process died (try %d of %d)", attempt, TRIES)
                self._replace(seat, actor)
                if attempt == TRIES:
                    raise
            finally:
                await self._give(seat)
        raise AssertionError("unreachable")

    async def _take(self, key: str) -> _Seat:
        async with self._free:
            while (seat := self._seat_for(key)) is None:
                await self._free.wait()
            seat.busy += 1
            seat.problems[key] = None
            seat.problems.move_to_end(key)
            while len(seat.problems) > REMEMBERED_PROBLEMS:
                seat.problems.popitem(last=False)
            return seat

    def _seat_for(self, key: str) -> _Seat | None:
        """The free seat that a problem's request should take; None: it waits.

        Opening a problem takes seconds: it stays where it is open, unless others have little to do.

        Raises:
            EvaluatorError: There are no seats.
        """
        if not self._seats:
            raise EvaluatorError("the pool is not running: start it first")
        homes = [seat for seat in self._seats if key in seat.problems]
        free = [
            seat
            for seat in self._seats
            if seat.busy < (seat.room if seat in homes or not homes else seat.room / 2)
        ]
        return min(free, key=lambda one: (one not in homes, one.busy), default=None)

    async def _give(self, seat: _Seat) -> None:
        async with self._free:
            seat.busy -= 1
            # Not everyone who waits would take this seat.
            self._free.notify_all()

    def _replace(self, seat: _Seat, dead: Any) -> None:  # noqa: ANN401 - Ray's handles have no type
        """Seat a new actor, unless another request has done so already."""
        if seat.actor is dead:
            seat.actor = self._new_actor(seat.rates)
            seat.problems.clear()

    def _new_actor(self, rates: Rates | None) -> Any:  # noqa: ANN401 - Ray's handles have no type
        options = {"num_cpus": 0, "max_concurrency": MAX_IN_FLIGHT + 1, "max_restarts": 0}
        if self._device == "cuda":
            options["num_gpus"] = 1
        return _ray().remote(RefereeActor).options(**options).remote(self._device, rates)

    def _actors_wanted(self) -> int:
        """How many referees there are to be.

        Raises:
            EvaluatorError: Ray has no GPU, or fewer than are asked for.
        """
        if self._device != "cuda":
            return self._num_actors or 1
        there = int(_ray().cluster_resources().get("GPU", 0))
        wanted = there if self._num_actors is None else self._num_actors
        if not 0 < wanted <= there:
            raise EvaluatorError(
                f"{max(wanted, 1)} referee(s) on GPUs were asked for, Ray has {there} GPU(s): "
                "look at nvidia-smi and CUDA_VISIBLE_DEVICES, or measure with --device cpu"
            )
        return wanted

    def _start_ray(self) -> None:
        ray = _ray()
        if ray.is_initialized():
            return
        self._folder = tempfile.TemporaryDirectory(prefix="evokernel-ray-")
        settings: dict[str, Any] = {
            "namespace": "evokernel",
            # Else a stray evaluator.py in the user's folder would win over ours.
            "runtime_env": {"working_dir": self._folder.name},
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if self._address is None:
            settings |= {"include_dashboard": False, "num_cpus": max(os.cpu_count() or 1, 2)}
        else:
            settings |= {"address": self._address}
        try:
            ray.init(**settings)
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise EvaluatorError(
                f"Ray could not be started at {self._address or 'this machine'}: {error}"
            ) from error
        self._ours = True

    def _stop_ray(self, actors: list[Any]) -> None:
        ray = _ray()
        for actor in actors:
            ray.kill(actor)
        if self._ours:
            ray.shutdown()
            self._ours = False
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _ray() -> ModuleType:
    """Import Ray at its first use: it takes a second."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    module: ModuleType = ray
    return module


async def _result(reference: Awaitable[T]) -> T:
    """Wait for an actor's answer.

    Raises:
        _ActorDied: The actor died first.
    """
    errors = _ray().exceptions
    try:
        return await reference
    except errors.RayActorError as error:
        raise _ActorDied(str(error)) from error
