"""The scripted server itself, since so much is proved with it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from archives.llm_call import CallOutcome, Message
from operators.llm.client import LitellmClient, Question, Response
from operators.llm.keys import Keys
from operators.llm.prices import Prices
from tests.scripted_llm import MODULE, Reply, ScriptedServer, demanding, echo, fenced, in_order

SERVER = Path(__file__).parents[2] / "scripted_llm.py"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def ask(url: str, *prompts: str) -> list[Response]:
    async def asking() -> list[Response]:
        client = LitellmClient(keys=Keys(file=Path(".env")), prices=Prices(), api_base=url)
        try:
            return [
                await client.ask(
                    Question(model="openai/scripted", messages=(Message(role="user", text=prompt),))
                )
                for prompt in prompts
            ]
        finally:
            await client.close()

    return asyncio.run(asking())


def test_it_answers_only_prompts_that_hold_what_they_must() -> None:
    script = demanding(["class ModelNew", "1.25 ms"], echo("x = 1\n"))
    with ScriptedServer(script) as server:
        lacking, holding = ask(
            server.url, "class ModelNew, slow", "class ModelNew takes 1.25 ms: speed it up"
        )
    assert lacking.outcome is CallOutcome.BAD_REQUEST
    assert lacking.log == "the prompt lacks '1.25 ms'"
    assert holding.text == fenced("x = 1\n")


def test_replies_come_in_order_and_then_no_more() -> None:
    with ScriptedServer(in_order([Reply(text="one"), Reply(text="two")])) as server:
        responses = ask(server.url, "a", "b", "c")
    assert [response.text for response in responses] == ["one", "two", ""]
    assert "no more replies" in responses[2].log
    assert [request.prompt for request in server.requests] == ["a", "b", "c"]


@pytest.mark.parametrize("own", [False, True])
def test_it_runs_in_a_process_of_its_own(tmp_path: Path, own: bool) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def script(request):\n"
        "    from __main__ import Reply\n"
        "    return Reply(text=request.prompt.upper())\n"
    )
    name = f"{file}:script" if own else "echo"
    command = [sys.executable, str(SERVER), "--script", name, "--delay", "0.01"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            (response,) = ask(url, "faster")
        finally:
            process.terminate()
    assert response.text == ("FASTER" if own else fenced(MODULE))


def test_a_script_that_is_not_there_is_said() -> None:
    command = [sys.executable, str(SERVER), "--script", "nothing"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2
    assert "there is no script 'nothing': echo, faults or FILE.py:NAME" in run.stderr
