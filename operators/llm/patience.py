"""Asking again: retries that back off, models that are left alone for a while, calls in flight.

A request that failed by chance is sent again after a wait that doubles, with jitter. A provider
that asks to wait is obeyed by every call to that model. A model that fails again and again is
benched: questions to it are answered `UNAVAILABLE` at once, until a cooldown has passed and a
single trial call succeeds; each failed trial doubles the cooldown.

Source: for jitter over the whole wait, Brooker, Exponential Backoff And Jitter (2015), "full
jitter"; for the trial call, Nygard, Release It! (2nd edition), "Circuit Breaker".
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from archives.llm_call import CallOutcome
from operators.llm.client import Client, Question, Response

__all__ = ["Consultation", "Patience", "PatientClient"]

RETRIED = frozenset(
    {
        CallOutcome.TIMEOUT,
        CallOutcome.RATE_LIMITED,
        CallOutcome.SERVER_ERROR,
        CallOutcome.CONNECTION,
        CallOutcome.MALFORMED,
        CallOutcome.EMPTY,
    }
)
"""What may go better the next time."""
ABOUT_THE_PROMPT = frozenset(
    {CallOutcome.OK, CallOutcome.FILTERED, CallOutcome.CONTEXT_OVERFLOW, CallOutcome.EMPTY}
)
"""Outcomes after which the model itself is known to work."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to try, and when to give up.

    Attributes:
        retries: Requests after the first one.
        wait_s: Longest wait before the first retry, in s; it doubles from retry to retry.
        max_wait_s: Bound of that wait, in s. A provider that asks for more than this is not
            asked again by the same call.
        failures: Calls that fail in a row, retries included, before a model is benched.
        cooldown_s: Seconds that a model is benched the first time.
        max_cooldown_s: Bound of that time, in s.
    """

    retries: int = 4
    wait_s: float = 1.0
    max_wait_s: float = 60.0
    failures: int = 5
    cooldown_s: float = 30.0
    max_cooldown_s: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consultation:
    """What came of a question, every request counted.

    Attributes:
        response: The last response; its tokens and its cost are those of the last request alone.
        prompt_tokens: Tokens sent in all; None: the provider never said.
        completion_tokens: Tokens that came back in all; None: the provider never said.
        cost_usd: Money in all; None: of some request it is not known.
        latency_s: Seconds from the first request to the last answer, waits included.
        tries: Requests sent.
    """

    response: Response
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    latency_s: float = 0.0
    tries: int = 0


@dataclass(slots=True, kw_only=True)
class _Standing:
    """How a model has behaved.

    Attributes:
        failed: Calls that failed in a row.
        cooldown_s: How long it is benched at the next failure; 0: it is not benched.
        benched_until_s: When a trial call may be made.
        trying: Whether a trial call is under way.
        quiet_until_s: When the provider accepts requests again, as it said.
    """

    failed: int = 0
    cooldown_s: float = 0.0
    benched_until_s: float = 0.0
    trying: bool = False
    quiet_until_s: float = 0.0


class PatientClient:
    """Asks with retries; all models share one limit of requests in flight."""

    def __init__(
        self,
        client: Client,
        *,
        patience: Patience,
        in_flight: int,
        jitter: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Start with every model in good standing.

        Args:
            client: Sends one request.
            patience: How long to try.
            in_flight: Requests at a time.
            jitter: A number in [0, 1), such as `numpy.random.Generator.random`.
            clock: Seconds, from any start.
            sleep: Waits that many seconds.
        """
        self._client = client
        self._patience = patience
        self._slots = asyncio.Semaphore(in_flight)
        self._jitter = jitter
        self._clock = clock
        self._sleep = sleep
        self._standings: dict[str, _Standing] = {}

    def is_available(self, model: str) -> bool:
        """Tell whether a question to a model would be sent now."""
        standing = self._standing(model)
        if not standing.cooldown_s:
            return True
        return not standing.trying and self._clock() >= standing.benched_until_s

    async def ask(self, question: Question) -> Consultation:
        """Ask until there is an answer, or no reason to hope for one."""
        standing = self._standing(question.model)
        if not self.is_available(question.model):
            return Consultation(response=self._unavailable(question.model, standing), cost_usd=0.0)
        trial = bool(standing.cooldown_s)
        standing.trying = standing.trying or trial
        try:
            consultation = await self._try(question, standing, trial=trial)
            self._judge(question.model, standing, consultation.response, trial=trial)
            return consultation
        finally:
            if trial:
                standing.trying = False

    async def _try(self, question: Question, standing: _Standing, *, trial: bool) -> Consultation:
        """Send requests until one need not or cannot be retried; a trial is one request."""
        start_s = self._clock()
        responses: list[Response] = []
        while True:
            await self._sleep_until(standing.quiet_until_s)
            if responses and not trial and standing.cooldown_s:
                break  # benched meanwhile
            async with self._slots:
                if not responses:
                    start_s = self._clock()  # before that it waited for others, not for an answer
                response = await self._client.ask(question)
            responses.append(response)
            if response.retry_after_s is not None:
                quiet_s = min(response.retry_after_s, self._patience.max_wait_s)
                standing.quiet_until_s = max(standing.quiet_until_s, self._clock() + quiet_s)
            tired = trial or bool(standing.cooldown_s) or len(responses) > self._patience.retries
            if tired or not self._may_go_better(response):
                break
            _LOG.debug("%s is asked again: %s", question.model, response.log)
            longest_s = self._patience.wait_s * 2.0 ** (len(responses) - 1)
            await self._sleep(self._jitter() * min(self._patience.max_wait_s, longest_s))
        return _summed(responses, self._clock() - start_s)

    async def _sleep_until(self, moment_s: float) -> None:
        """Wait until a provider accepts requests again, spread so that not all come at once."""
        rest_s = moment_s - self._clock()
        if rest_s > 0:
            await self._sleep(rest_s + self._jitter() * self._patience.wait_s)

    def _may_go_better(self, response: Response) -> bool:
        """Tell whether the same question is worth another request."""
        if response.outcome is CallOutcome.EMPTY and response.finish == "length":
            return False  # it thought until its tokens were used up, and would again
        asked_s = response.retry_after_s or 0.0
        return response.outcome in RETRIED and asked_s <= self._patience.max_wait_s

    def _judge(self, model: str, standing: _Standing, response: Response, *, trial: bool) -> None:
        """Bench a model, or take it back, after a call."""
        if response.outcome in ABOUT_THE_PROMPT:
            if standing.cooldown_s:
                _LOG.warning("the model %s answers again", model)
            standing.failed, standing.cooldown_s = 0, 0.0
            return
        standing.failed += 1
        if standing.cooldown_s and not trial:
            return  # began before the model was benched
        if trial or standing.failed >= self._patience.failures:
            longer_s = max(self._patience.cooldown_s, 2 * standing.cooldown_s)
            standing.cooldown_s = min(longer_s, self._patience.max_cooldown_s)
            standing.benched_until_s = self._clock() + standing.cooldown_s
            _LOG.warning(
                "the model %s failed %d times in a row (%s): it is not asked for %.0f s",
                model,
                standing.failed,
                response.log or response.outcome,
                standing.cooldown_s,
            )

    def _unavailable(self, model: str, standing: _Standing) -> Response:
        rest_s = max(0.0, standing.benched_until_s - self._clock())
        return Response(
            outcome=CallOutcome.UNAVAILABLE,
            cost_usd=0.0,
            log=f"the model {model} failed {standing.failed} times in a row: it is not asked for "
            f"another {rest_s:.0f} s",
        )

    def _standing(self, model: str) -> _Standing:
        return self._standings.setdefault(model, _Standing())


def _summed(responses: list[Response], latency_s: float) -> Consultation:
    costs = [response.cost_usd for response in responses]
    known = [cost for cost in costs if cost is not None]
    return Consultation(
        response=responses[-1],
        prompt_tokens=_total([response.prompt_tokens for response in responses]),
        completion_tokens=_total([response.completion_tokens for response in responses]),
        cost_usd=sum(known) if len(known) == len(costs) else None,
        latency_s=latency_s,
        tries=len(responses),
    )


def _total(counts: list[int | None]) -> int | None:
    """The sum of those that are known; None where none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
