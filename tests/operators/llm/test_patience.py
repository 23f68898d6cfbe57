import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from archives.llm_call import CallOutcome, Message
from operators.llm.client import Question, Response
from operators.llm.patience import Consultation, Patience, PatientClient

OK = Response(
    outcome=CallOutcome.OK, text="a kernel", prompt_tokens=10, completion_tokens=5, cost_usd=0.5
)
RETRIED = ("timeout", "rate_limited", "server_error", "connection", "malformed", "empty")


def failed(outcome: str, **fields: object) -> Response:
    return Response(outcome=CallOutcome(outcome), cost_usd=0.0, **fields)  # type: ignore[arg-type]


def question(model: str = "openai/one") -> Question:
    return Question(model=model, messages=(Message(role="user", text="faster"),))


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class Scripted:
    """A client that answers from a list, and after its end always the same."""

    def __init__(self, *responses: Response, then: Response = OK, clock: Clock) -> None:
        self.responses = list(responses)
        self.then = then
        self.asked = 0
        self.now = 0
        self.peak = 0
        self.held: asyncio.Event | None = None
        self.clock = clock

    async def ask(self, question: Question) -> Response:
        assert question.messages
        self.asked += 1
        self.now += 1
        self.peak = max(self.peak, self.now)
        self.clock.now_s += 2.0
        try:
            await (self.held.wait() if self.held else asyncio.sleep(0))
            return self.responses.pop(0) if self.responses else self.then
        finally:
            self.now -= 1


def patient(
    client: Scripted, *, patience: Patience | None = None, in_flight: int = 64
) -> PatientClient:
    return PatientClient(
        client,
        patience=patience or Patience(),
        in_flight=in_flight,
        jitter=np.random.default_rng(0).random,
        clock=client.clock,
        sleep=client.clock.sleep,
    )


def ask(client: PatientClient, times: int = 1) -> Sequence[Consultation]:
    async def asking() -> list[Consultation]:
        return [await client.ask(question()) for _ in range(times)]

    return asyncio.run(asking())


@pytest.mark.parametrize("outcome", RETRIED)
def test_what_fails_by_chance_is_sent_again(outcome: str) -> None:
    client = Scripted(failed(outcome), failed(outcome), clock=Clock())
    (consultation,) = ask(patient(client))
    assert consultation.response is OK
    assert consultation.tries == client.asked == 3


@pytest.mark.parametrize(
    "outcome", ["authentication", "bad_request", "context_overflow", "filtered"]
)
def test_what_would_fail_again_is_not_sent_again(outcome: str) -> None:
    client = Scripted(failed(outcome, log="no"), clock=Clock())
    (consultation,) = ask(patient(client))
    assert consultation.response.outcome == outcome
    assert consultation.tries == client.asked == 1


def test_a_model_that_thought_until_the_end_is_not_sent_again() -> None:
    client = Scripted(failed("empty", finish="length"), clock=Clock())
    assert ask(patient(client))[0].tries == 1


def test_waits_double_with_jitter_up_to_a_bound_and_end() -> None:
    clock = Clock()
    client = Scripted(then=failed("server_error"), clock=clock)
    patience = Patience(retries=8, wait_s=1.0, max_wait_s=20.0)
    (consultation,) = ask(patient(client, patience=patience))
    assert consultation.response.outcome is CallOutcome.SERVER_ERROR
    assert consultation.tries == client.asked == 9
    bounds = [1, 2, 4, 8, 16, 20, 20, 20]
    assert len(clock.slept) == len(bounds)
    assert all(0 <= slept < bound for slept, bound in zip(clock.slept, bounds, strict=True))
    assert len(set(clock.slept)) == len(bounds), "no two wait alike"


def test_every_request_counts_in_money_tokens_and_time() -> None:
    empty = failed("empty", prompt_tokens=10, completion_tokens=2)
    client = Scripted(
        failed("timeout"),
        Response(outcome=CallOutcome.EMPTY, prompt_tokens=10, completion_tokens=2, cost_usd=0.25),
        clock=Clock(),
    )
    (consultation,) = ask(patient(client))
    assert consultation.cost_usd == 0.75
    assert (consultation.prompt_tokens, consultation.completion_tokens) == (20, 7)
    assert consultation.latency_s == pytest.approx(sum(client.clock.slept) + 3 * 2.0)
    unknown = Scripted(
        empty, then=Response(outcome=CallOutcome.OK, text="x", cost_usd=None), clock=Clock()
    )
    assert ask(patient(unknown))[0].cost_usd is None


def test_a_provider_that_asks_to_wait_is_obeyed_by_every_call() -> None:
    clock = Clock()
    client = Scripted(failed("rate_limited", retry_after_s=30.0), clock=clock)
    several = patient(client)
    arrivals: list[float] = []
    plain = client.ask

    async def noting(question: Question) -> Response:
        arrivals.append(clock())
        return await plain(question)

    client.ask = noting  # type: ignore[method-assign]
    first, second = ask(several, 2)
    assert first.tries == 2
    assert arrivals[1] >= arrivals[0] + 30.0

    client.responses = [failed("rate_limited", retry_after_s=30.0, log="slow")]

    async def meanwhile() -> None:
        limited = asyncio.create_task(several.ask(question()))
        while client.responses:
            await asyncio.sleep(0)
        await several.ask(question())
        await limited

    before = clock()
    asyncio.run(meanwhile())
    assert second.tries == 1
    assert all(arrival >= before + 30.0 for arrival in arrivals[-2:])


def test_a_wait_beyond_all_patience_is_not_sat_out() -> None:
    clock = Clock()
    client = Scripted(failed("rate_limited", retry_after_s=3600.0), clock=clock)
    (consultation,) = ask(patient(client))
    assert consultation.response.outcome is CallOutcome.RATE_LIMITED
    assert consultation.tries == 1
    assert clock.slept == []


def test_a_model_that_keeps_failing_is_benched_and_comes_back() -> None:
    clock = Clock()
    client = Scripted(then=failed("authentication", log="wrong key"), clock=clock)
    patience = Patience(failures=3, cooldown_s=30.0, max_cooldown_s=100.0)
    several = patient(client, patience=patience)
    outcomes = [one.response.outcome for one in ask(several, 5)]
    assert outcomes == ["authentication"] * 3 + ["unavailable"] * 2
    assert client.asked == 3
    assert not several.is_available("openai/one")
    assert several.is_available("openai/another")
    refused = ask(several)[0]
    assert (refused.tries, refused.cost_usd) == (0, 0.0)
    assert "failed 3 times in a row" in refused.response.log
    for cooldown_s in (30.0, 60.0, 100.0, 100.0):
        clock.now_s += cooldown_s - 1.0
        assert ask(several)[0].response.outcome is CallOutcome.UNAVAILABLE
        clock.now_s += 1.0
        assert several.is_available("openai/one")
        assert ask(several)[0].response.outcome is CallOutcome.AUTHENTICATION, "the trial call"
    clock.now_s += 100.0
    client.then = OK
    assert [one.response.outcome for one in ask(several, 2)] == ["ok", "ok"]
    client.then = failed("authentication")
    assert ask(several, 4)[-1].response.outcome is CallOutcome.UNAVAILABLE
    clock.now_s += 30.0
    assert several.is_available("openai/one"), "the cooldown is short again"


def test_a_trial_is_one_request_of_one_call() -> None:
    clock = Clock()
    client = Scripted(then=failed("server_error"), clock=clock)
    several = patient(client, patience=Patience(retries=2, failures=1, cooldown_s=30.0))
    ask(several)
    assert client.asked == 3
    clock.now_s += 30.0

    async def together() -> list[Consultation]:
        return list(await asyncio.gather(*(several.ask(question()) for _ in range(5))))

    outcomes = sorted(one.response.outcome for one in asyncio.run(together()))
    assert outcomes == ["server_error"] + ["unavailable"] * 4
    assert client.asked == 4


def test_calls_under_way_give_up_when_their_model_is_benched() -> None:
    clock = Clock()
    client = Scripted(failed("server_error"), then=failed("authentication"), clock=clock)
    woken = asyncio.Event()

    async def until_woken(seconds: float) -> None:
        clock.slept.append(seconds)
        await woken.wait()

    clock.sleep = until_woken  # type: ignore[method-assign]
    several = patient(client, patience=Patience(failures=1))

    async def together() -> Consultation:
        waiting = asyncio.create_task(several.ask(question()))
        while not clock.slept:
            await asyncio.sleep(0)
        await several.ask(question())
        assert not several.is_available("openai/one")
        woken.set()
        return await waiting

    consultation = asyncio.run(together())
    assert consultation.response.outcome is CallOutcome.SERVER_ERROR
    assert (consultation.tries, client.asked) == (1, 2)


def test_a_prompt_that_is_refused_does_not_bench_the_model() -> None:
    client = Scripted(then=failed("filtered"), clock=Clock())
    outcomes = [one.response.outcome for one in ask(patient(client), 20)]
    assert outcomes == ["filtered"] * 20


def test_requests_in_flight_are_limited_and_waits_hold_no_place() -> None:
    client = Scripted(clock=Clock())
    several = patient(client, in_flight=3)

    async def together() -> None:
        models = (f"openai/{number % 2}" for number in range(30))
        await asyncio.gather(*(several.ask(question(model)) for model in models))

    asyncio.run(together())
    assert client.peak == 3
    assert client.asked == 30


def test_a_cancelled_trial_leaves_room_for_the_next() -> None:
    clock = Clock()
    client = Scripted(then=failed("connection"), clock=clock)
    several = patient(
        client, patience=Patience(retries=0, failures=1, cooldown_s=30.0), in_flight=1
    )

    async def cancelling() -> Consultation:
        await several.ask(question())
        clock.now_s += 30.0
        client.held = asyncio.Event()
        trial = asyncio.create_task(several.ask(question()))
        while not client.now:
            await asyncio.sleep(0)
        assert not several.is_available("openai/one"), "one trial at a time"
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial
        client.held, client.then = None, OK
        return await several.ask(question())

    consultation = asyncio.run(cancelling())
    assert consultation.response is OK
    assert client.now == 0
