"""A language model that says what a script tells it: an OpenAI-compatible server for tests.

Real HTTP on 127.0.0.1, connections kept alive, any number of calls at a time. It knows every way
in which a provider fails. In a test: `with ScriptedServer(script) as server:`, then a client with
`api_base=server.url`. By hand or for a benchmark, in a process of its own:

    python tests/scripted_llm.py --port 8123 --script echo
    python tests/scripted_llm.py --script my_scripts.py:SCRIPT --delay 0.05
"""

from __future__ import annotations

import argparse
import asyncio
import json
import runpy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = [
    "SCRIPTS",
    "Drop",
    "Reply",
    "Request",
    "Script",
    "ScriptedServer",
    "demanding",
    "echo",
    "fenced",
    "in_order",
    "refusal",
    "slow",
]

MODULE = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


class Drop(Enum):
    """When the server cuts the connection instead of answering to the end."""

    NEVER = "never"
    BEFORE_HEADERS = "before headers"
    MID_BODY = "mid body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client sent.

    Attributes:
        body: The request, as sent.
        headers: Its headers, names in lower case.
    """

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def prompt(self) -> str:
        """The text of all messages, oldest first."""
        return "\n".join(str(message["content"]) for message in self.body.get("messages", ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server answers.

    Attributes:
        text: What the model says; None: a message without content.
        reasoning: What it thought before, sent beside the text; "" for nothing.
        finish: Why it stopped.
        status: HTTP status; any other than 200 is an error whose message is `text`.
        code: Code of the error.
        headers: More headers, such as Retry-After.
        delay_s: Seconds before the answer.
        body: Sent as it is instead of all the above; None: nothing special.
        drop: Whether the connection is cut.
        usage: Whether tokens are counted: four characters each.
    """

    text: str | None = ""
    reasoning: str = ""
    finish: str = "stop"
    status: int = 200
    code: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    body: bytes | None = None
    drop: Drop = Drop.NEVER
    usage: bool = True


Script = Callable[[Request], Reply]


def refusal(status: int, message: str, *, code: str = "scripted", **headers: str) -> Reply:
    """An error of the provider; `retry_after="3"` becomes the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, text=message, code=code, headers=named)


def fenced(module: str) -> str:
    """A module as a model writes it: in a fence, after a sentence."""
    return f"Here is the kernel.\n\n```python\n{module}```\n"


def echo(module: str = MODULE) -> Script:
    """Always the same module."""
    return lambda _: Reply(text=fenced(module))


def in_order(replies: Sequence[Reply], then: Script | None = None) -> Script:
    """One reply after the other, by order of arrival; when they are used up, `then`."""
    remaining = iter(replies)
    last = then or (lambda _: refusal(500, "the script has no more replies"))
    return lambda request: next(remaining, None) or last(request)


def slow(script: Script, delay_s: float) -> Script:
    """The same answers, each after `delay_s` seconds more."""

    def answer(request: Request) -> Reply:
        reply = script(request)
        return replace(reply, delay_s=reply.delay_s + delay_s)

    return answer


def demanding(needed: Sequence[str], script: Script) -> Script:
    """Answers only prompts that hold every one of `needed`; others are told what is missing."""

    def answer(request: Request) -> Reply:
        missing = [text for text in needed if text not in request.prompt]
        if missing:
            return refusal(400, f"the prompt lacks {missing[0]!r}", code="prompt_lacks")
        return script(request)

    return answer


def _faults() -> Script:
    """Each failure in turn, then a module, and again."""
    replies = (
        refusal(429, "slow down", retry_after="1"),
        refusal(503, "overloaded"),
        Reply(body=b"{ this is no JSON"),
        Reply(body=b'{"id": "1", "object": "chat.completion", "choices": []}'),
        Reply(finish="content_filter"),
        Reply(text="```python\nimport tor", finish="length"),
        Reply(drop=Drop.BEFORE_HEADERS),
        Reply(drop=Drop.MID_BODY),
        Reply(text=fenced(MODULE)),
    )
    numbers = count()
    return lambda _: replies[next(numbers) % len(replies)]


SCRIPTS: Mapping[str, Script] = {"echo": echo(), "faults": _faults()}


class ScriptedServer:
    """The server, in a thread of its own; use it as a context.

    Attributes:
        script: Answers requests, one at a time; may be replaced at any moment.
        requests: Everything that was asked, by order of arrival.
        connections: Connections ever opened.
        open: Connections open now.
        peak: Most requests that were in work at one moment.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        """Prepare it.

        Args:
            script: What to answer.
            port: Where to listen; 0: any free port.
        """
        self.script = script
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0
        self.peak = 0
        self._in_work = 0
        self._port = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """Its address, for `api_base`."""
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        if not self._ready.wait(timeout=10):
            raise TimeoutError("the scripted server did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        starting = asyncio.start_server(self._connection, "127.0.0.1", self._port, limit=1 << 24)
        server = self._loop.run_until_complete(starting)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, or the server is closed
        finally:
            self.open -= 1
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read one request and answer it; False where the connection is cut."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self._in_work += 1
        self.peak = max(self.peak, self._in_work)
        try:
            reply = self._answer(first, headers, body)
            if reply.delay_s:
                await asyncio.sleep(reply.delay_s)
        finally:
            self._in_work -= 1
        model = str(json.loads(body).get("model", "")) if body else ""
        sent = b"".join(_response(reply, model, len(body)))
        if reply.drop is Drop.NEVER:
            writer.write(sent)
            await writer.drain()
            return True
        if reply.drop is Drop.MID_BODY:
            writer.write(sent[:-10])
            await writer.drain()
        writer.transport.abort()
        return False

    def _answer(self, first: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if first.split(" ")[:2] != ["POST", "/v1/chat/completions"]:
            return refusal(404, f"there is nothing at {first!r}, only POST /v1/chat/completions")
        request = Request(body=json.loads(body), headers=headers)
        self.requests.append(request)
        return self.script(request)


def _response(reply: Reply, model: str, asked_bytes: int) -> Iterator[bytes]:
    """The bytes of an HTTP response."""
    body = reply.body
    if body is None and reply.status == HTTPStatus.OK:
        body = json.dumps(_completion(reply, model, asked_bytes)).encode()
    elif body is None:
        error = {"message": reply.text, "type": "invalid_request_error", "code": reply.code}
        kind = "server_error" if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR else error["type"]
        body = json.dumps({"error": {**error, "type": kind}}).encode()
    headers = {"content-type": "application/json", "content-length": len(body), **reply.headers}
    yield f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\n".encode()
    yield "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    yield b"\r\n"
    yield body


def _completion(reply: Reply, model: str, asked_bytes: int) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    completion: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
    }
    if reply.usage:
        prompt = asked_bytes // 4
        answered = (len(reply.text or "") + len(reply.reasoning)) // 4
        completion["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": answered,
            "total_tokens": prompt + answered,
        }
    return completion


def _named(name: str) -> Script:
    """A script by its name, or "FILE.py:NAME" for one of another file."""
    path, colon, attribute = name.rpartition(":")
    if colon:
        script: Script = runpy.run_path(str(Path(path)))[attribute]
        return script
    return SCRIPTS[name]


def main() -> None:
    """Serve until interrupted; the first line printed is the address."""
    parser = argparse.ArgumentParser(description="A scripted OpenAI-compatible server.")
    parser.add_argument("--port", type=int, default=0, help="where to listen (default: any)")
    parser.add_argument(
        "--script", default="echo", help=f"{', '.join(SCRIPTS)}, or FILE.py:NAME of one's own"
    )
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    if options.script not in SCRIPTS and ":" not in options.script:
        parser.error(f"there is no script {options.script!r}: {', '.join(SCRIPTS)} or FILE.py:NAME")
    with ScriptedServer(slow(_named(options.script), options.delay), port=options.port) as server:
        print(server.url, flush=True)  # noqa: T201 # whoever started it reads the address
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
