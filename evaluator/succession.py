"""How an actor of the pool comes up: the first one of a seat, or the next after a death."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from evaluator.actor import Answer, unpack
from evaluator.cluster import ActorDied, outcome
from evaluator.evaluator import Capacity
from evaluator.seats import Seat, difference
from problems.errors import EvaluatorError

__all__ = ["MAX_IN_FLIGHT", "PLACED_S", "failure_to_succeed", "start_actor"]

MAX_IN_FLIGHT = 16
"""Requests that an actor of any device takes at most."""
PLACED_S = 120.0
"""Seconds that a new actor may wait for its place; then its seat is given up.

Ray places one within seconds where a GPU is free; a node whose Ray is started again is back within
two minutes. Until then other seats go on, and a pool without any other waits.
"""
_TRIES = 2


async def start_actor(seat: Seat, *, calibrate: bool) -> Capacity:
    """Wait until the actor of a seat has its place, and start its referee.

    Args:
        seat: What is learnt of the actor is written into it.
        calibrate: Whether to measure the noise floor and what the device reaches.

    Raises:
        TimeoutError: It has no place in time.
        ActorDied: It died meanwhile.
        EvaluatorError: Its referee does not come up.
    """
    host = await asyncio.wait_for(outcome(seat.actor.host.remote()), PLACED_S)
    answer: Answer[Capacity] = await outcome(seat.actor.start.remote(calibrate=calibrate))
    capacity = unpack(answer)
    device = capacity.device
    identity = f" {device.uuid}" if device.kind == "cuda" else ""
    seat.words = f"{device.name}{identity} of host {host}"
    seat.room = min(capacity.in_flight, MAX_IN_FLIGHT)
    seat.rates = capacity.rates
    return capacity


async def failure_to_succeed(seat: Seat, first: Capacity, new_actor: Callable[[], Any]) -> str:
    """Start the next actor of a seat; say why there is none, "" where there is.

    Args:
        seat: With the next actor in it, which need not have a place yet.
        first: Of the pool: numbers of the next one must compare with its numbers.
        new_actor: Asks for one more, where the next one dies as well.
    """
    before = seat.words
    for tried in range(1, _TRIES + 1):
        try:
            capacity = await start_actor(seat, calibrate=False)
        except TimeoutError:
            return f"Ray found no place for another one within {PLACED_S:.0f} s"
        except EvaluatorError as error:
            return f"the next one did not come up: {error}"
        except ActorDied:
            if tried < _TRIES:
                seat.actor = new_actor()
            continue
        if not (unlike := difference(first, capacity)):
            return ""
        after, seat.words = seat.words, before
        return f"the next one, on {after}, cannot stand for it: {unlike}"
    return f"the next {_TRIES} died while they started"
