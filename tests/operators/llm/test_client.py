import asyncio
import gc
import threading
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path

import pytest

from archives.llm_call import CallOutcome, Message
from operators.llm.client import LitellmClient, Question, Response
from operators.llm.keys import Keys
from operators.llm.prices import Prices
from problems.errors import ConfigError
from tests.scripted_llm import Drop, Reply, Request, ScriptedServer, echo, in_order, refusal

pytestmark = pytest.mark.usefixtures("litellm_is_old")

MODEL = "openai/scripted"
NO_KEYS = Keys(file=Path(".env"))
OVERFLOW = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
    "tokens. Please reduce the length of the messages."
)


def question(**fields: object) -> Question:
    asked = Question(model=MODEL, messages=(Message(role="user", text="faster, please"),))
    return Question(**{name: getattr(asked, name) for name in asked.__slots__} | fields)


def ask(
    server: ScriptedServer,
    asked: Question | None = None,
    *,
    prices: Prices | None = None,
    now_s: Callable[[], float] = lambda: 0.0,
) -> Response:
    (response,) = ask_all(server, [asked or question()], prices=prices, now_s=now_s)
    return response


def ask_all(
    server: ScriptedServer,
    asked: Sequence[Question],
    *,
    prices: Prices | None = None,
    now_s: Callable[[], float] = lambda: 0.0,
) -> list[Response]:
    async def asking() -> list[Response]:
        client = LitellmClient(
            keys=NO_KEYS, prices=prices or Prices(), api_base=server.url, now_s=now_s
        )
        try:
            return list(await asyncio.gather(*(client.ask(one) for one in asked)))
        finally:
            await client.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left behind"

    responses = asyncio.run(asking())
    gc.collect()  # a connection that was not closed would warn here
    return responses


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def test_a_reply_comes_back_with_its_tokens() -> None:
    with ScriptedServer(lambda _: Reply(text="a kernel", reasoning="let me think")) as server:
        response = ask(server)
    assert (response.outcome, response.text, response.finish) == (
        CallOutcome.OK,
        "a kernel",
        "stop",
    )
    assert response.prompt_tokens
    assert response.completion_tokens
    assert response.prompt_tokens > response.completion_tokens > 0
    assert response.log == ""


def test_parameters_reach_the_server_as_they_are() -> None:
    asked = question(
        max_output_tokens=123,
        temperature=0.25,
        reasoning_effort="low",
        parameters={"top_k": 40, "top_p": 0.9, "extra_body": {"min_p": 0.1}},
    )
    with ScriptedServer(echo()) as server:
        assert ask(server, asked).outcome is CallOutcome.OK
        assert ask(server).outcome is CallOutcome.OK
    first, second = (dict(request.body) for request in server.requests)
    assert first.pop("messages") == [{"role": "user", "content": "faster, please"}]
    assert first == {
        "model": "scripted",
        "max_tokens": 123,
        "temperature": 0.25,
        "reasoning_effort": "low",
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.1,
    }
    assert set(second) == {"model", "messages", "max_tokens"}


@pytest.mark.parametrize("name", ["api_key", "aws_secret_access_key", "stream", "model"])
def test_keys_and_addresses_are_no_parameters(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"llm\.parameters holds '{name}'.*\.env"):
        question(parameters={name: "x"})


@pytest.mark.parametrize(
    ("reply", "outcome", "log"),
    [
        (refusal(429, "slow down"), CallOutcome.RATE_LIMITED, "slow down"),
        (refusal(500, "boom"), CallOutcome.SERVER_ERROR, "boom"),
        (refusal(502, "bad gateway"), CallOutcome.SERVER_ERROR, "bad gateway"),
        (refusal(503, "overloaded"), CallOutcome.SERVER_ERROR, "overloaded"),
        (Reply(status=503, body=b"<html>"), CallOutcome.SERVER_ERROR, "503"),
        (refusal(504, "too late"), CallOutcome.TIMEOUT, "too late"),
        (refusal(401, "who are you"), CallOutcome.AUTHENTICATION, "who are you"),
        (refusal(403, "not for you"), CallOutcome.AUTHENTICATION, "not for you"),
        (refusal(404, "no such model"), CallOutcome.BAD_REQUEST, "no such model"),
        (refusal(400, "top_k is unknown"), CallOutcome.BAD_REQUEST, "top_k is unknown"),
        (refusal(422, "wrong type"), CallOutcome.BAD_REQUEST, "wrong type"),
        (refusal(400, OVERFLOW), CallOutcome.CONTEXT_OVERFLOW, "8192 tokens"),
        (
            refusal(400, "too long", code="context_length_exceeded"),
            CallOutcome.CONTEXT_OVERFLOW,
            "too long",
        ),
        (refusal(400, "not nice", code="content_filter"), CallOutcome.FILTERED, "not nice"),
        (Reply(text="x", finish="content_filter"), CallOutcome.FILTERED, "filter withheld"),
        (Reply(body=b"{ no JSON"), CallOutcome.MALFORMED, "line 1"),
        (Reply(body=b"\xff\xfe\x00"), CallOutcome.MALFORMED, ""),
        (Reply(body=b""), CallOutcome.MALFORMED, "Expecting value"),
        (Reply(body=b"[]"), CallOutcome.MALFORMED, "[]"),
        (Reply(body=b'{"choices": null}'), CallOutcome.MALFORMED, "choices"),
        (Reply(body=b'{"choices": [{}]}'), CallOutcome.MALFORMED, "Invalid response"),
        (Reply(body=b'{"choices": []}'), CallOutcome.EMPTY, "no choice"),
        (Reply(text=None), CallOutcome.EMPTY, "no text"),
        (Reply(text=" \n"), CallOutcome.EMPTY, "no text"),
        (Reply(text=None, reasoning="hm", finish="length"), CallOutcome.EMPTY, "'length'"),
        (Reply(drop=Drop.BEFORE_HEADERS), CallOutcome.CONNECTION, "onnection"),
        (Reply(drop=Drop.MID_BODY), CallOutcome.CONNECTION, "onnection"),
    ],
)
def test_every_failure_of_a_provider_is_a_value(
    reply: Reply, outcome: CallOutcome, log: str
) -> None:
    with ScriptedServer(lambda _: reply) as server:
        response = ask(server)
        assert len(server.requests) == 1, "one question is one request"
    assert response.outcome is outcome
    assert log in response.log
    assert "\n" not in response.log
    assert response.text == ""
    if reply.status != 200 and reply.body is None:
        assert response.log == reply.text, "the provider's own sentence, and nothing around it"


def test_a_cut_off_reply_is_a_reply_that_says_so() -> None:
    with ScriptedServer(lambda _: Reply(text="import tor", finish="length")) as server:
        response = ask(server)
    assert (response.outcome, response.finish) == (CallOutcome.OK, "length")


def test_a_late_answer_is_a_timeout() -> None:
    with ScriptedServer(lambda _: Reply(text="late", delay_s=20)) as server:
        response = ask(server, question(timeout_s=0.5))
    assert response.outcome is CallOutcome.TIMEOUT
    assert "0.5 s" in response.log


def test_an_address_where_nobody_listens_is_a_lost_connection() -> None:
    with ScriptedServer(echo()) as server:
        pass
    response = ask(server)
    assert response.outcome is CallOutcome.CONNECTION
    assert "Connect call failed" in response.log


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        (formatdate(1_000_030, usegmt=True), 30.0),
        (formatdate(999_000, usegmt=True), 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_a_provider_says_how_long_to_wait(header: str, wait_s: float | None) -> None:
    with ScriptedServer(lambda _: refusal(429, "slow down", retry_after=header)) as server:
        response = ask(server, now_s=lambda: 1_000_000.0)
    assert response.retry_after_s == wait_s


def test_a_price_turns_tokens_into_money() -> None:
    replies = [Reply(text="x" * 400), Reply(text="x", usage=False), refusal(500, "boom")]
    prices = Prices.per_million(1.0, 10.0)
    with ScriptedServer(in_order(replies)) as server:
        counted, uncounted, failed = (ask(server, prices=prices) for _ in replies)
        unknown = ask(server)
    assert counted.cost_usd == pytest.approx(
        (counted.prompt_tokens or 0) * 1e-6 + (counted.completion_tokens or 0) * 1e-5
    )
    assert (uncounted.cost_usd, uncounted.prompt_tokens) == (None, None)
    assert failed.cost_usd == 0.0
    assert unknown.cost_usd is None


def test_a_listed_price_is_used_without_being_configured() -> None:
    with ScriptedServer(lambda _: Reply(text="x" * 4000)) as server:
        response = ask(server, question(model="openai/gpt-4o"))
    price = Prices().of("openai/gpt-4o")
    assert price is not None
    assert response.cost_usd == pytest.approx(
        price.cost_usd(response.prompt_tokens or 0, response.completion_tokens or 0)
    )


def test_calls_run_side_by_side_over_connections_that_are_kept() -> None:
    calls = 200
    held = threading.Event()

    def script(request: Request) -> Reply:
        if len(server.requests) == calls:
            held.set()
        return Reply(text=f"answer to {request.prompt}", delay_s=0.0 if held.is_set() else 1.0)

    asked = [question(messages=(Message(role="user", text=f"{i}"),)) for i in range(calls)]

    async def asking() -> tuple[list[Response], list[Response]]:
        client = LitellmClient(keys=NO_KEYS, prices=Prices(), api_base=server.url)
        try:
            first = await asyncio.gather(*(client.ask(one) for one in asked))
            return list(first), [await client.ask(one) for one in asked[:20]]
        finally:
            await client.close()

    with ScriptedServer(script) as server:
        together, in_turn = asyncio.run(asking())
    assert [one.text for one in together] == [f"answer to {i}" for i in range(calls)]
    assert [one.text for one in in_turn] == [f"answer to {i}" for i in range(20)]
    assert server.peak > 64
    assert server.connections <= calls, "the calls afterwards opened none"


def test_a_cancelled_call_leaves_nothing_behind() -> None:
    async def asking() -> None:
        client = LitellmClient(keys=NO_KEYS, prices=Prices(), api_base=server.url)
        await client.start()
        task = asyncio.create_task(client.ask(question()))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(500):
            if not server.open:
                break
            await asyncio.sleep(0.01)
        assert server.open == 0, "the provider is told that nobody waits"
        await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with ScriptedServer(lambda _: Reply(text="late", delay_s=1)) as server:
        asyncio.run(asking())
