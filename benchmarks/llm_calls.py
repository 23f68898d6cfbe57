"""CPU time of calls to a model by themselves, and of the search around them, held against it.

A virtual machine's CPU may be twice as fast in one hour as in another, so milliseconds of two runs
say little. What is judged is a ratio: the CPU time of a search for each of its calls over that of a
plain call of litellm, both of the same minutes. Calls are measured before and after the search, in
rounds that alternate between both kinds, and the median of the rounds counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from archives.llm_call import Message
from evokernel.config import resolve
from evokernel.heap import settled_heap
from evokernel.models import ProviderModels
from operators.llm.loading import load_litellm

__all__ = [
    "AT_ONCE",
    "ENGINE_GOAL",
    "WHOLE_GOAL",
    "Calls",
    "Share",
    "calls_at_once",
    "calls_spaced",
]

AT_ONCE = 64
ENGINE_GOAL = 1.0
"""Plain calls that the engine's own CPU time around a call may be worth."""
WHOLE_GOAL = 2.0
"""The same for all CPU time of a search, its call included."""
_SPACING_S = 0.012

Ask = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """CPU seconds of a call by itself, nothing of a search, in each round.

    Attributes:
        ours_s: As the search makes it.
        plain_s: litellm as it comes, without retries, prices, or anything that is spared.
    """

    ours_s: tuple[float, ...]
    plain_s: tuple[float, ...]

    def __add__(self, other: Calls) -> Calls:
        """Rounds of two measurements, such as before and after a search."""
        return Calls(ours_s=self.ours_s + other.ours_s, plain_s=self.plain_s + other.plain_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a search takes beside its calls, of which there are a little more than candidates.

    Attributes:
        candidate_s: CPU seconds of the search for each candidate.
        whole_s: The same for each call.
        engine_s: That less the call as the search makes it.
        plain_s: CPU seconds of a plain call.
    """

    candidate_s: float
    whole_s: float
    engine_s: float
    plain_s: float

    @classmethod
    def of(cls, around: Calls, *, cpu_s: float, calls: int, candidates: int) -> Share:
        """Divide what a search took.

        Args:
            around: Calls that were measured before and after it.
            cpu_s: CPU seconds of the search's process.
            calls: Calls that it made.
            candidates: Candidates that it measured.
        """
        return cls(
            candidate_s=cpu_s / candidates,
            whole_s=cpu_s / calls,
            engine_s=cpu_s / calls - median(around.ours_s),
            plain_s=median(around.plain_s),
        )

    @property
    def engine(self) -> float:
        """The engine's own CPU time over a plain call's."""
        return self.engine_s / self.plain_s

    @property
    def whole(self) -> float:
        """All CPU time for each call over a plain call's."""
        return self.whole_s / self.plain_s

    def lines(self) -> Iterator[str]:
        """What is printed of it: the ratios with their targets, and milliseconds."""
        yield f"  engine ms/call      {1000 * self.engine_s:.2f}"
        yield f"  engine/plain call   {self.engine:.2f} {_target(self.engine, ENGINE_GOAL)}"
        yield f"  whole/plain call    {self.whole:.2f} {_target(self.whole, WHOLE_GOAL)}"


def _target(found: float, most: float) -> str:
    return f"(target: at most {most}, {'kept' if found <= most else 'NOT KEPT'})"


def calls_at_once(url: str, text: str, *, rounds: int = 7, at_once: int = AT_ONCE) -> Calls:
    """Measure calls of which so many are under way at a time.

    Each step is taken for all of them in a row, so that the processor's caches hold its code.

    Args:
        url: The model's address.
        text: The prompt.
        rounds: Rounds of each kind, in turn.
        at_once: Calls in a round, all at a time.
    """

    async def measure() -> Calls:
        async with _both(url, text) as (ours, plain):
            for ask in (ours, plain):
                await _at_once(ask, at_once)  # Connections are made.
            found = [
                (await _at_once(ours, at_once), await _at_once(plain, at_once))
                for _ in range(rounds)
            ]
        return Calls(ours_s=tuple(own for own, _ in found), plain_s=tuple(one for _, one in found))

    with settled_heap():
        return asyncio.run(measure())


def calls_spaced(url: str, text: str, *, times: int = 320) -> Calls:
    """Measure calls of which one begins every 12 ms, as in a search, with nothing between them."""

    async def measure() -> Calls:
        async with _both(url, text) as (ours, plain):
            return Calls(
                ours_s=(await _spaced(ours, times),), plain_s=(await _spaced(plain, times),)
            )

    with settled_heap():
        return asyncio.run(measure())


@asynccontextmanager
async def _both(url: str, text: str) -> AsyncIterator[tuple[Ask, Ask]]:
    """A call as the search makes it, and a plain one."""
    config = resolve(settings=[f'llm.api_base="{url}"'], flags={"llm.models": ("openai/x",)}).llm
    litellm = load_litellm()
    messages = [{"role": "user", "content": text}]
    given = {"api_base": url, "api_key": "none", "max_tokens": config.max_output_tokens}
    prompt = (Message(role="user", text=text),)
    # On leaving, it closes the connections of plain calls too.
    async with ProviderModels(config, folder=Path.cwd(), rng_seed=0) as models:
        yield (
            lambda: models.ask("openai/x", prompt),
            # A name of its own: what the search tells litellm of its model does not hold for it.
            lambda: litellm.acompletion(model="openai/plain", messages=messages, **given),
        )


async def _at_once(ask: Ask, times: int) -> float:
    started = time.process_time()
    await asyncio.gather(*(ask() for _ in range(times)))
    return (time.process_time() - started) / times


async def _spaced(ask: Ask, times: int) -> float:
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    started, asked = time.process_time(), []
    for _ in range(times):
        asked.append(asyncio.ensure_future(ask()))
        await asyncio.sleep(_SPACING_S)
    await asyncio.gather(*asked)
    return (time.process_time() - started) / times
