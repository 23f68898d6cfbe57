"""Later requests to a server of one's own go a shorter way: nobody must see a difference."""

import asyncio
import gc
from collections.abc import Sequence
from pathlib import Path

import pytest

from archives.llm_call import CallOutcome, Message
from operators.llm.client import LitellmClient, Question, Response
from operators.llm.keys import Keys
from operators.llm.own_server import own_client
from operators.llm.prices import Prices
from tests.scripted_llm import Drop, Reply, ScriptedServer, in_order, refusal

pytestmark = pytest.mark.usefixtures("litellm_is_old")

GOOD = Reply(text="import torch", finish="stop")
QUESTION = Question(
    model="openai/scripted",
    messages=(Message(role="user", text="schneller, bitte: 2 µs → 1 µs"),),
    temperature=0.5,
)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def ask_in_turn(server: ScriptedServer, questions: Sequence[Question]) -> list[Response]:
    async def asking() -> list[Response]:
        client = LitellmClient(
            keys=Keys(file=Path(".env")), prices=Prices(), api_base=server.url, now_s=lambda: 0.0
        )
        try:
            return [await client.ask(one) for one in questions]
        finally:
            await client.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left behind"

    responses = asyncio.run(asking())
    gc.collect()  # a connection that was not closed would warn here
    return responses


def test_this_version_of_litellm_takes_such_a_client() -> None:
    async def is_there() -> bool:
        client = own_client("http://127.0.0.1:1/v1", "none")
        if client is None:
            return False
        await client.close()
        return True

    assert asyncio.run(is_there())


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        Reply(text="import tor", finish="length"),
        Reply(text="x", reasoning="hm"),
        Reply(text="x", usage=False),
        Reply(text="x", finish="content_filter"),
        Reply(text=None),
        refusal(429, "slow down", retry_after="7"),
        refusal(500, "boom"),
        refusal(504, "too late"),
        refusal(401, "who are you"),
        refusal(422, "wrong type"),
        refusal(400, "too long", code="context_length_exceeded"),
        refusal(400, "not nice", code="content_filter"),
        Reply(status=503, body=b"<html>"),
        Reply(body=b"{ no JSON"),
        Reply(body=b"\xff\xfe\x00"),
        Reply(body=b""),
        Reply(body=b"[]"),
        Reply(body=b'{"choices": null}'),
        Reply(body=b'{"choices": [{}]}'),
        Reply(body=b'{"choices": []}'),
        Reply(drop=Drop.BEFORE_HEADERS),
        Reply(drop=Drop.MID_BODY),
    ],
)
def test_a_later_request_and_its_answer_are_like_a_first_one(reply: Reply) -> None:
    with ScriptedServer(lambda _: reply) as server:
        first = ask_in_turn(server, [QUESTION])
        (plain,) = server.requests
    with ScriptedServer(in_order([GOOD], then=lambda _: reply)) as server:
        later = ask_in_turn(server, [QUESTION, QUESTION])[1:]
        _, short = server.requests
    assert later == first
    assert short.body == plain.body
    names = {"host"}  # each server has a port of its own
    assert {n: v for n, v in short.headers.items() if n not in names} == {
        n: v for n, v in plain.headers.items() if n not in names
    }


def test_a_late_answer_to_a_later_request_is_a_timeout() -> None:
    hurried = Question(model=QUESTION.model, messages=QUESTION.messages, timeout_s=0.5)
    script = in_order([GOOD, Reply(text="late", delay_s=20)])
    with ScriptedServer(script) as server:
        _, late = ask_in_turn(server, [QUESTION, hurried])
    assert late.outcome is CallOutcome.TIMEOUT


def test_a_server_that_goes_away_between_two_requests_is_a_lost_connection() -> None:
    async def asking() -> list[Response]:
        with ScriptedServer(lambda _: GOOD) as server:
            keys = Keys(file=Path(".env"))
            client = LitellmClient(keys=keys, prices=Prices(), api_base=server.url)
            first = await client.ask(QUESTION)
        try:
            return [first, await client.ask(QUESTION)]
        finally:
            await client.close()

    first, second = asyncio.run(asking())
    assert first.outcome is CallOutcome.OK
    assert second.outcome is CallOutcome.CONNECTION
    assert "\n" not in second.log


def test_other_parameters_reach_the_server_at_every_request() -> None:
    special = Question(
        model=QUESTION.model, messages=QUESTION.messages, parameters={"top_k": 5, "seed": 3}
    )
    with ScriptedServer(lambda _: GOOD) as server:
        ask_in_turn(server, [QUESTION, special, QUESTION, special])
        bodies = [request.body for request in server.requests]
    assert bodies[0] == bodies[2]
    assert bodies[1] == bodies[3]
    assert (bodies[1]["top_k"], bodies[1]["seed"]) == (5, 3)


def test_a_server_that_gives_cookies_gets_them_back() -> None:
    good = Reply(text="x", headers={"Set-Cookie": "place=7; Path=/"})
    with ScriptedServer(lambda _: good) as server:
        ask_in_turn(server, [QUESTION, QUESTION, QUESTION])
        cookies = [request.headers.get("cookie") for request in server.requests]
    assert cookies == [None, "place=7", "place=7"]


def test_a_later_request_that_is_sent_elsewhere_goes_there() -> None:
    with ScriptedServer(lambda _: GOOD) as there:
        moved = Reply(status=307, headers={"Location": f"{there.url}/chat/completions"})
        with ScriptedServer(in_order([GOOD], then=lambda _: moved)) as server:
            responses = ask_in_turn(server, [QUESTION, QUESTION])
        assert [response.outcome for response in responses] == [CallOutcome.OK, CallOutcome.OK]
        assert len(there.requests) == 1
