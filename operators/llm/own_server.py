"""Requests to a server of one's own, without what openai's client works out anew for each.

litellm reaches such a server through openai's client, which builds address and headers of every
request from its options, copies those several times, and makes an object of every part of an
answer, which litellm turns into plain data again: a third of what a call takes. Here the first
request goes the ordinary way, and the later ones take over its address and its headers. Their
failures are raised as openai's client raises them, so that litellm sees no difference.

Where a version of either has no place for it, calls are made as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

__all__ = ["own_client"]

_PATH = "/chat/completions"
_TRANSPORT = "_transport_for_url"
_PLAIN_OPTIONS = frozenset({"headers", "security", "timeout"})
"""Options that are the same for all requests, or are heeded here."""


def own_client(api_base: str, api_key: str) -> Any | None:  # noqa: ANN401 (openai's, made lazily)
    """Return a client for litellm's parameter `client`; None where this version has none.

    Whoever asked for it closes it.

    Args:
        api_base: Address of the server.
        api_key: What it wants for a key.
    """
    kind = _client_class()
    if kind is None:
        return None
    try:
        from litellm.llms.openai.openai import OpenAIChatCompletion

        http_client = OpenAIChatCompletion._get_async_http_client()
        return kind(api_key=api_key, base_url=api_base, http_client=http_client, max_retries=0)
    except (ImportError, AttributeError, TypeError):
        return None


@cache
def _client_class() -> Any | None:  # noqa: ANN401 (a class under a class that is imported lazily)
    """The client of openai with a shorter way for most requests; None where that cannot be."""
    try:
        import httpx
        from openai import AsyncOpenAI
        from openai._legacy_response import LegacyAPIResponse
        from openai._models import FinalRequestOptions
    except ImportError:
        return None
    hooks = ((AsyncOpenAI, "_make_status_error_from_response"), (httpx.AsyncClient, _TRANSPORT))
    if not all(hasattr(owner, name) for owner, name in hooks):
        return None
    plain = FinalRequestOptions.construct(method="post", url=_PATH)

    class Answer(LegacyAPIResponse[Any]):
        """An answer whose JSON is taken as it is."""

        def parse(self, *, to: Any = None) -> Any:  # noqa: ANN401 (as openai declares it)
            data = _object_of(self.http_response) if to is None else None
            return super().parse(to=to) if data is None else _Parsed(data)

    class OwnServer(AsyncOpenAI):
        """Sends most requests by the pattern of the first one."""

        _pattern: _Pattern | None = None

        async def post(self, path: str, **given: Any) -> Any:  # noqa: ANN401
            if path != _PATH or not _is_plain(given):
                return await super().post(path, **given)
            options = given["options"]
            if self._pattern is None or self._pattern.given != options.get("headers"):
                answer = await super().post(path, **given)
                self._pattern = _Pattern.of(answer, options.get("headers"))
                return answer
            request = self._pattern.request(given["body"], httpx.Timeout(options["timeout"]))
            response = await _answered(self._client, request)
            if response.is_redirect:
                return await super().post(path, **given)
            try:
                response.raise_for_status()
            except httpx.HTTPStatusError:
                raise self._make_status_error_from_response(response) from None
            return Answer(
                raw=response,
                cast_to=given["cast_to"],
                client=self,
                stream=False,
                stream_cls=None,
                options=plain,
            )

    return OwnServer


class _Pattern:
    """What all requests have in common.

    Attributes:
        given: The headers that litellm asked for.
    """

    def __init__(self, request: Any, given: object) -> None:  # noqa: ANN401 (httpx, maybe httpx2)
        self.given = given
        self._kind = type(request)
        self._url = request.url
        self._headers = [
            (name, value)
            for name, value in request.headers.raw
            if name.lower() != b"content-length"
        ]

    @classmethod
    def of(cls, answer: Any, given: object) -> _Pattern | None:  # noqa: ANN401
        """Take the pattern of an answered request; None where the answer does not tell it.

        A server that gives cookies wants them back, which only the ordinary way does.
        """
        request = getattr(answer, "http_request", None)
        return None if request is None or "set-cookie" in answer.headers else cls(request, given)

    def request(self, body: Mapping[str, object], timeout: Any) -> Any:  # noqa: ANN401
        """Return a request with another body, written as openai's client writes it."""
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return self._kind(
            method="POST",
            url=self._url,
            headers=self._headers,
            content=text.encode(),
            extensions={"timeout": timeout.as_dict()},
        )


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Whether a request asks for nothing that only the ordinary way heeds."""
    options = given.get("options", {})
    special = [name for name in options if options[name] and name not in _PLAIN_OPTIONS]
    return not special and not given.get("stream") and "timeout" in options


async def _answered(client: Any, request: Any) -> Any:  # noqa: ANN401
    """The response to a request; raises as openai's client does."""
    import httpx
    from openai import APIConnectionError, APITimeoutError

    try:
        return await _sent(client, request)
    except httpx.TimeoutException as error:
        raise APITimeoutError(request=request) from error
    except httpx.RequestError as error:
        raise APIConnectionError(request=request) from error


async def _sent(client: Any, request: Any) -> Any:  # noqa: ANN401
    """The whole response to a request, past what httpx does for cookies, redirects and hooks."""
    response = await getattr(client, _TRANSPORT)(request.url).handle_async_request(request)
    response.request = request
    try:
        await response.aread()
    except BaseException:
        await response.aclose()
        raise
    return response


class _Parsed:
    """Parsed JSON in the form in which litellm takes it from openai's client."""

    def __init__(self, data: dict[str, object]) -> None:
        self._data = data

    def model_dump(self, **_: object) -> dict[str, object]:
        """Return the data."""
        return self._data


def _object_of(response: Any) -> dict[str, object] | None:  # noqa: ANN401
    """The JSON object of a response; None where it is something else."""
    kind = str(response.headers.get("content-type", "")).split(";")[0]
    if not kind.endswith("json"):
        return None
    try:
        data = json.loads(response.content)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None
