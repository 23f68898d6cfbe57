"""Consulting: how a question of an operator becomes an answer, for one attempt at a time.

    recorded? ── yes ──> the answer of then
       │ no
    allowed?  ── no ───> "budget", recorded
       │ yes
    asked, recorded as soon as the answer is there

A resumed run finds what it has paid for in its own store, a replay what another run recorded: the
operators see no difference. An answer says nothing about a verdict; that is the referee's alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from archives.attempt import Slot
from archives.llm_call import CallOutcome, LlmCall, Message
from archives.store import Store
from evokernel.allowance import Allowance, Bill
from evokernel.monitor import Monitor
from operators.llm.client import Response
from operators.llm.consult import Answer
from operators.llm.patience import Consultation
from operators.llm.prices import prompt_tokens_at_most

__all__ = ["Consulting", "Models", "Record", "SlotConsult"]


class Record:
    """The calls that stores hold, by slot; one generation of each problem is kept at a time."""

    def __init__(self, *stores: Store) -> None:
        """Look calls up.

        Args:
            stores: Open runs; where several hold a call, the first one's counts.
        """
        self._stores = stores
        self._generations: dict[str, tuple[int, dict[Slot, list[LlmCall]]]] = {}

    def calls(self, slot: Slot) -> Sequence[LlmCall]:
        """Return the calls of an attempt that were recorded before its generation was taken up."""
        return self._of_generation(slot.problem, slot.generation).get(slot, ())

    def has_calls(self, problem: str, generation: int) -> bool:
        """Tell whether anything was asked in a generation."""
        return bool(self._of_generation(problem, generation))

    def _of_generation(self, problem: str, generation: int) -> dict[Slot, list[LlmCall]]:
        number, calls = self._generations.get(problem, (-1, {}))
        if number == generation:
            return calls
        calls = {}
        for store in self._stores:
            found: dict[Slot, list[LlmCall]] = {}
            for call in store.recorded_calls(problem, generation):
                found.setdefault(call.slot, []).append(call)
            calls = found | calls
        self._generations[problem] = (generation, calls)
        return calls


class Models(Protocol):
    """Whoever puts questions to models; retries and the limit of calls under way included."""

    parameters: Mapping[str, object]
    """Sampling parameters that are sent with every question."""

    def most(self, model: str, prompt_tokens: int) -> Bill:
        """Return what one request with a prompt of so many tokens may cost at most."""
        ...

    async def ask(self, model: str, messages: Sequence[Message]) -> Consultation:
        """Ask; whatever happens is a value, never an exception."""
        ...


class Consulting:
    """Answers the questions of a run's operators: from a record, or by asking."""

    def __init__(
        self,
        *,
        store: Store,
        record: Record,
        models: Models,
        allowance: Allowance,
        max_prompt_tokens: int,
    ) -> None:
        """Prepare; nobody is asked yet.

        Args:
            store: Where every call is recorded, open for writing.
            record: Calls that need not be made again.
            models: Whoever asks them.
            allowance: What the calls may cost; what earlier sittings spent is in it.
            max_prompt_tokens: Tokens that a prompt may have at most.
        """
        self.max_prompt_tokens = max_prompt_tokens
        self.allowance = allowance
        self._store = store
        self._record = record
        self._models = models
        self._monitor = Monitor()
        self._left_s: Callable[[], float | None] = _without_end

    def attach(self, monitor: Monitor, left_s: Callable[[], float | None]) -> None:
        """Take up a sitting.

        Args:
            monitor: What people are shown.
            left_s: Returns the seconds that are left; None: time is not limited.
        """
        self._monitor = monitor
        self._left_s = left_s

    def of_slot(self, slot: Slot, operator: str, model: str) -> SlotConsult:
        """Return what one attempt asks.

        Args:
            slot: The attempt.
            operator: Name of the operator.
            model: The model that was chosen for it.
        """
        return SlotConsult(self, slot, operator, model, self._record.calls(slot))

    def was_asked(self, problem: str, generation: int) -> bool:
        """Tell whether anything was asked in a generation before it was taken up now."""
        return self._record.has_calls(problem, generation)

    def has_room(self, problem: str, models: Sequence[str]) -> bool:
        """Tell whether the budget has room for the longest question to every model."""
        return not any(
            self.allowance.refusal(problem, self._models.most(model, self.max_prompt_tokens))
            for model in models
        )

    async def answer(
        self, slot: Slot, number: int, operator: str, model: str, messages: Sequence[Message]
    ) -> LlmCall:
        """Ask a model and record what came of it."""
        asked = await self._consult(slot.problem, model, messages)
        response = asked.response
        call = LlmCall(
            slot=slot,
            number=number,
            operator=operator,
            model=model,
            messages=tuple(messages),
            parameters=self._models.parameters,
            outcome=response.outcome,
            text=response.text,
            finish=response.finish,
            log=response.log,
            prompt_tokens=asked.prompt_tokens,
            completion_tokens=asked.completion_tokens,
            cost_usd=asked.cost_usd,
            latency_s=asked.latency_s,
            tries=asked.tries,
        )
        self.keep(call)
        return call

    def keep(self, call: LlmCall) -> None:
        """Record a call, unless it is there already."""
        self._store.record_call(call)

    async def _consult(self, problem: str, model: str, messages: Sequence[Message]) -> Consultation:
        """Ask within the budget."""
        estimate = self._models.most(model, prompt_tokens_at_most(messages))
        refusal = self.allowance.refusal(problem, estimate) or self._lateness()
        if refusal:
            return Consultation(
                response=Response(outcome=CallOutcome.BUDGET, log=refusal), cost_usd=0.0
            )
        self.allowance.reserve(problem, estimate)
        self._monitor.calls_under_way += 1
        bill = Bill()
        try:
            async with asyncio.timeout(self._left_s()):
                asked = await self._models.ask(model, messages)
            bill = _bill(asked, estimate)
        except TimeoutError:
            # The provider may well count what nobody waits for any more.
            bill = estimate
            log = "the run's minutes were over before the answer came"
            asked = Consultation(
                response=Response(outcome=CallOutcome.TIMEOUT, log=log), cost_usd=None, tries=1
            )
        finally:
            self._monitor.calls_under_way -= 1
            self.allowance.settle(problem, estimate, bill)
        self._monitor.calls += 1
        return asked

    def _lateness(self) -> str:
        left_s = self._left_s()
        return "the run's minutes are over" if left_s is not None and left_s <= 0 else ""


class SlotConsult:
    """What one attempt asks its model; see `operators.llm.consult.Consult`."""

    def __init__(
        self,
        consulting: Consulting,
        slot: Slot,
        operator: str,
        model: str,
        recorded: Sequence[LlmCall],
    ) -> None:
        """Take up an attempt.

        Args:
            consulting: Answers.
            slot: The attempt.
            operator: Name of the operator.
            model: The model that was chosen.
            recorded: The attempt's calls so far; those of this operator are not made again.
        """
        self.model = model
        self.latency_s = 0.0
        self._consulting = consulting
        self._slot = slot
        self._operator = operator
        self._recorded = [call for call in recorded if call.operator == operator]
        self._number = max((call.number for call in recorded), default=-1) + 1

    @property
    def max_prompt_tokens(self) -> int:
        """Tokens that a prompt may have at most."""
        return self._consulting.max_prompt_tokens

    async def ask(self, messages: Sequence[Message]) -> Answer:
        """Return the recorded answer to the next question, or ask; never raises."""
        if self._recorded:
            call = self._recorded.pop(0)
            self.model = call.model
            self._consulting.keep(call)
        else:
            call = await self._consulting.answer(
                self._slot, self._number, self._operator, self.model, messages
            )
            self._number += 1
        self.latency_s += call.latency_s
        return Answer(
            outcome=call.outcome,
            text=call.text,
            finish=call.finish,
            cost_usd=call.cost_usd or 0.0,
            log=call.log,
        )


def _without_end() -> None:
    return None


def _bill(asked: Consultation, estimate: Bill) -> Bill:
    """What a question cost; what the provider does not say of a reply counts as estimated."""
    known = (asked.prompt_tokens or 0) + (asked.completion_tokens or 0)
    is_counted = asked.prompt_tokens is not None and asked.completion_tokens is not None
    is_reply = asked.response.outcome is CallOutcome.OK
    return Bill(
        calls=asked.tries,
        tokens=known if is_counted or not is_reply else max(known, estimate.tokens),
        cost_usd=asked.cost_usd or 0.0,
        unpriced=int(asked.tries > 0 and asked.cost_usd is None),
    )
