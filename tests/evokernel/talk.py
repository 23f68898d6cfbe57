"""A language model without a network: answers in place of a provider, for tests of the engine.

Run as a script it kills runs that ask it at random moments and resumes them.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from archives.configuration import with_configuration
from archives.export import canonical_export
from archives.llm_call import CallOutcome, Message
from archives.store import Store
from evaluator.evaluator import Evaluator
from evokernel.allowance import Allowance, Bill
from evokernel.config import RunConfig
from evokernel.consulting import Consulting, Models, Record
from evokernel.engine import Engine
from operators.llm.client import Response
from operators.llm.patience import Consultation
from operators.operator import Operator
from problems.errors import StoreError
from tests.evokernel import landscape as world

MODELS = 'llm.models=["test/one"]'
LLM_ONLY = 'operators.use=["llm.translate", "llm.mutate", "llm.crossover"]'
ALL = ("llm.translate", "llm.mutate", "llm.crossover", "llm.repair")

Script = Callable[[str, str], str | Response]
"""From a model's name and the text of its prompt to its reply."""


def draw(text: str) -> int:
    """A number that only the text decides on."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16)


def fenced(module: str) -> str:
    return f"Changed a constant.\n\n```python\n{module}```\n"


def any_point(model: str, prompt: str) -> str:
    """The landscape's program at a point that the prompt decides on."""
    number = draw(prompt)
    point = {}
    for name in world.NAMES:
        number, point[name] = divmod(number, len(world.VALUES))
    return fenced(with_configuration(world.PROGRAM, point))


class Talker:
    """Answers by a script, after a while; notes what it was asked."""

    def __init__(
        self, script: Script = any_point, *, delay_s: Callable[[str], float] = lambda _: 0.0
    ) -> None:
        self.parameters: Mapping[str, object] = {"max_tokens": 1000}
        self.script = script
        self.delay_s = delay_s
        self.prompts: list[str] = []
        self.models: list[str] = []
        self.under_way = 0
        self.peak = 0

    def most(self, model: str, prompt_tokens: int) -> Bill:
        return Bill(calls=1, tokens=prompt_tokens + 1000, cost_usd=0.01)

    async def ask(self, model: str, messages: Sequence[Message]) -> Consultation:
        prompt = "\n".join(message.text for message in messages)
        self.prompts.append(prompt)
        self.models.append(model)
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            await asyncio.sleep(self.delay_s(prompt))
        finally:
            self.under_way -= 1
        reply = self.script(model, prompt)
        if isinstance(reply, Response):
            return Consultation(response=reply, cost_usd=0.0, tries=1)
        return Consultation(
            response=Response(outcome=CallOutcome.OK, text=reply, finish="stop"),
            prompt_tokens=len(prompt) // 4,
            completion_tokens=len(reply) // 4,
            cost_usd=0.002,
            latency_s=0.5,
            tries=1,
        )


def failure(outcome: CallOutcome) -> Response:
    return Response(outcome=outcome, log=f"the provider says {outcome}")


def engine_with(
    store: Store,
    config: RunConfig,
    talker: Models,
    evaluator: Evaluator | None = None,
    replayed: Store | None = None,
    mine: Mapping[str, Operator] | None = None,
) -> Engine:
    """An engine whose models are answered for by `talker`."""
    known = world.operators()
    chosen = config.operators.use
    asking = () if any(name.startswith("llm.") for name in chosen) else ALL
    names = ("seed", *chosen, *asking)
    stores = [store] if replayed is None else [store, replayed]
    return Engine(
        store=store,
        config=config,
        evaluator=evaluator or world.Landscape(),
        operators={name: known[name] for name in names} | dict(mine or {}),
        consulting=Consulting(
            store=store,
            record=Record(*stores),
            models=talker,
            allowance=Allowance(config.llm, store.calls()),
            max_prompt_tokens=config.llm.max_prompt_tokens,
        ),
    )


def slowly(prompt: str) -> float:
    """Seconds, another time for each prompt."""
    return 0.001 * (draw(prompt) % 20)


def kill_and_resume(folder: Path, delay_s: float, config: RunConfig) -> str:
    """Kill a run after so many seconds, resume it, and return its canonical export."""
    child = os.fork()
    if child == 0:
        with world.new_store(folder, config, 1) as store:
            asyncio.run(engine_with(store, config, Talker(delay_s=slowly)).run())
        os._exit(0)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        store = Store.open(folder, write=True)
    except StoreError:
        return ""  # The kill came before there was a run.
    with store:
        paid = {call.id for call in store.calls()}
        asyncio.run(engine_with(store, config, Talker(delay_s=slowly)).run())
        assert paid <= {call.id for call in store.calls()}
        return canonical_export(store)


def main(folder: Path, kills: int) -> None:
    """Print how many of so many killed and resumed runs end as an undisturbed one does."""
    config = world.config(MODELS, "search.islands=2", "search.proposals=4")
    started = time.monotonic()
    with world.new_store(folder / "undisturbed", config, 1) as store:
        asyncio.run(engine_with(store, config, Talker(delay_s=slowly)).run())
        expected = canonical_export(store)
    lasted_s = time.monotonic() - started
    rng = np.random.default_rng(0)
    ends: list[str] = []
    for number in range(3 * kills):
        end = kill_and_resume(folder / str(number), float(rng.uniform(0, lasted_s)), config)
        ends += [end] if end else []
        if len(ends) == kills:
            break
    same = sum(end == expected for end in ends)
    sys.stdout.write(f"{len(ends)} resumed, {same} the same")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
