"""The pool: referees in Ray actors, on this machine or on a cluster.

One queue feeds every actor. An actor takes several requests at a time: candidates are built and
checked while another one is timed. A problem goes where it is open already, if there is room. An
actor that dies is replaced, and what it was doing is tried once more elsewhere. Where Ray finds no
place for another one in time, as after the death of a node, its seat is given up and the others go
on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from archives.evaluation import Evaluation, Status
from archives.rates import Rates
from evaluator.actor import Answer, RefereeActor, unpack
from evaluator.cluster import ActorDied, RaySession, outcome
from evaluator.evaluator import Capacity, EvaluationRequest, Lint
from evaluator.referee.deadlines import Deadlines
from evaluator.seats import Seat, free_seat, joined
from evaluator.succession import MAX_IN_FLIGHT, PLACED_S, failure_to_succeed, start_actor
from problems.errors import EvaluatorError
from problems.graph import OperatorGraph
from problems.lifted import OPTION_SETS, Lifted
from problems.problem import Problem

__all__ = ["Pool"]

T = TypeVar("T")
TRIES = 2
_CLOSED_S = 10.0
_LOG = logging.getLogger(__name__)


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
        deadlines: Deadlines | None = None,
    ) -> None:
        """Prepare it; nothing starts before `start`.

        Args:
            device: What each referee measures on: "cpu" or "cuda".
            num_actors: Referees; by default one, or one for each GPU that Ray has. On one host
                those of a CPU take turns at the timed cores.
            address: Of a running Ray cluster; None or "local": start Ray on this machine.
            calibrate: Whether `start` measures the noise floor and what each device reaches.
            rates: What the devices were measured to reach before, as a resumed run knows.
            deadlines: How long each step of a candidate may take; None: as usual on the device.
        """
        self._device = device
        self._num_actors = num_actors
        self._ray = RaySession(address)
        self._calibrate = calibrate
        self._rates = rates
        self._deadlines = deadlines
        self._seats: list[Seat] = []
        self._free = asyncio.Condition()
        self._capacity: Capacity | None = None
        self._absent = "the pool is not running: start it first"

    async def start(self) -> Capacity:
        """Start Ray and the referees; see `Evaluator.start`."""
        await asyncio.to_thread(self._ray.start)
        self._seats = [
            Seat(actor=self._new_actor(self._rates), rates=self._rates)
            for _ in range(self._actors_wanted())
        ]
        capacities: list[Capacity] = []
        if self._device == "cuda":
            # Side by side, as they will judge: each GPU has cores and a gate of its own.
            capacities += await asyncio.gather(*(self._start_first(seat) for seat in self._seats))
        else:
            for seat in self._seats:
                # One after the other: they share the cores that are timed.
                capacities.append(await self._start_first(seat))
        self._capacity = joined(capacities, [seat.words for seat in self._seats])
        return self._capacity

    async def _start_first(self, seat: Seat) -> Capacity:
        """Start an actor of a new pool.

        Raises:
            EvaluatorError: It does not come up.
        """
        try:
            return await start_actor(seat, calibrate=self._calibrate)
        except TimeoutError as error:
            raise EvaluatorError(
                f"{self._ray.words} had no place for one of {len(self._seats)} referees within "
                f"{PLACED_S:.0f} s: 'ray status' shows whether other programs hold its GPUs; end "
                "them, or leave those GPUs out by CUDA_VISIBLE_DEVICES as Ray is started"
            ) from error
        except ActorDied as error:
            raise EvaluatorError(
                f"a referee on {self._ray.words} died while it started: {error}"
            ) from error

    async def actor_pids(self) -> list[int]:
        """Return the process of each actor, for whoever watches them; new ones are awaited."""
        if settling := [seat.settling for seat in self._seats if seat.settling is not None]:
            await asyncio.wait(settling)
        return [await outcome(seat.actor.pid.remote()) for seat in self._seats]

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
                request.problem.key, lambda actor: outcome(actor.evaluate.remote(request))
            )
        except ActorDied:
            return Evaluation(
                status=Status.CRASHED,
                reason="evaluator_died",
                log="The evaluator's own process died twice while it judged this candidate.",
                referee_version=self._capacity.referee_version if self._capacity else "",
            )
        return unpack(answer)

    async def close(self) -> None:
        """End every actor and, where the pool started or joined it, leave Ray."""
        seats, self._seats = self._seats, []
        for seat in seats:
            if seat.settling is not None:
                seat.settling.cancel()
                continue
            try:
                await asyncio.wait_for(outcome(seat.actor.close.remote()), timeout=_CLOSED_S)
            except (TimeoutError, ActorDied):
                _LOG.warning("an evaluator process did not end in time: it is killed")
        await asyncio.to_thread(self._leave, [seat.actor for seat in seats])

    async def _asked(self, what: str, problem: Problem, ask: Callable[[Any], Any]) -> T:
        """Ask some actor about a problem itself.

        Raises:
            EvaluatorError: Two actors died over it.
        """
        try:
            return await self._with_seat(problem.key, lambda actor: outcome(ask(actor)))
        except ActorDied as error:
            raise EvaluatorError(f"the evaluator's process died twice while it {what}") from error

    async def _with_seat(self, key: str, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run a request on some actor; once more where the actor dies.

        Raises:
            ActorDied: It died both times.
            EvaluatorError: No seat is left.
        """
        tries = 0
        while True:
            seat = await self._take(key)
            actor = seat.actor
            try:
                if tries:
                    # With a node all of its actors die, which is not the request's fault.
                    await outcome(actor.pid.remote())
                tries += 1
                return await work(actor)
            except ActorDied:
                _LOG.warning("an evaluator process died (try %d of %d)", tries, TRIES)
                self._replace(seat, actor)
                if tries == TRIES:
                    raise
            finally:
                await self._give(seat)

    async def _take(self, key: str) -> Seat:
        """Wait for a seat.

        Raises:
            EvaluatorError: There are none.
        """
        async with self._free:
            while (seat := free_seat(self._seats, key)) is None:
                if not self._seats:
                    raise EvaluatorError(self._absent)
                await self._free.wait()
            seat.take(key)
            return seat

    async def _give(self, seat: Seat) -> None:
        async with self._free:
            seat.busy -= 1
            # Not everyone who waits would take this seat.
            self._free.notify_all()

    def _replace(self, seat: Seat, dead: Any) -> None:  # noqa: ANN401 - Ray's handles have no type
        """Ask for a new actor, unless another request has done so or the seat is given up."""
        if seat.actor is dead and seat in self._seats:
            self._ray.kill(dead)
            seat.problems.clear()
            seat.actor = self._new_actor(seat.rates)
            seat.settling = asyncio.create_task(self._settle(seat))

    async def _settle(self, seat: Seat) -> None:
        """Wait for the new actor of a seat; give the seat up where none comes."""
        assert self._capacity is not None
        lost = await failure_to_succeed(seat, self._capacity, lambda: self._new_actor(seat.rates))
        seat.settling = None
        if lost:
            self._seats.remove(seat)
            self._ray.kill(seat.actor)
            _LOG.warning(
                "the referee on %s died, and %s; %d go on", seat.words, lost, len(self._seats)
            )
            self._absent = (
                f"no referee is left: the last one, on {seat.words}, died, and {lost}; bring its "
                "node back or add another one, then go on with 'evokernel resume'"
            )
        async with self._free:
            self._free.notify_all()

    def _new_actor(self, rates: Rates | None) -> Any:  # noqa: ANN401 - Ray's handles have no type
        options = {"num_cpus": 0, "max_concurrency": MAX_IN_FLIGHT + 1, "max_restarts": 0}
        if self._device == "cuda":
            options["num_gpus"] = 1
        return self._ray.new_actor(RefereeActor, options, self._device, rates, self._deadlines)

    def _actors_wanted(self) -> int:
        """How many referees there are to be.

        Raises:
            EvaluatorError: Ray has no GPU, or fewer than are asked for.
        """
        if self._device != "cuda":
            return self._num_actors or 1
        there = self._ray.num_gpus()
        wanted = there if self._num_actors is None else self._num_actors
        if not 0 < wanted <= there:
            raise EvaluatorError(
                f"{max(wanted, 1)} referee(s) on GPUs were asked for, Ray has {there} GPU(s) on "
                f"{self._ray.words}: look at nvidia-smi and CUDA_VISIBLE_DEVICES, or measure with "
                "--device cpu"
            )
        return wanted

    def _leave(self, actors: list[Any]) -> None:
        for actor in actors:
            self._ray.kill(actor)
        self._ray.stop()
