"""From litellm's exception to an outcome.

litellm names many failures by HTTP status alone and calls what has none a server error, so the
chain of causes is looked at first: a broken connection and an unreadable body say there what they
are. Then the provider's own code, then the exception's class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from archives.llm_call import CallOutcome

__all__ = ["outcome_of", "retry_after_s", "sentence_of"]

_BY_CODE = {
    "context_length_exceeded": CallOutcome.CONTEXT_OVERFLOW,
    "content_filter": CallOutcome.FILTERED,
    "content_policy_violation": CallOutcome.FILTERED,
}
_BY_CLASS = {
    "ContextWindowExceededError": CallOutcome.CONTEXT_OVERFLOW,
    "ContentPolicyViolationError": CallOutcome.FILTERED,
    "Timeout": CallOutcome.TIMEOUT,
    "RateLimitError": CallOutcome.RATE_LIMITED,
    "AuthenticationError": CallOutcome.AUTHENTICATION,
    "PermissionDeniedError": CallOutcome.AUTHENTICATION,
    "APIResponseValidationError": CallOutcome.MALFORMED,
    "BadRequestError": CallOutcome.BAD_REQUEST,
    "NotFoundError": CallOutcome.BAD_REQUEST,
    "UnprocessableEntityError": CallOutcome.BAD_REQUEST,
    "APIConnectionError": CallOutcome.CONNECTION,
}
"""Keys are names of litellm's exceptions or of their base classes; the first that fits counts."""
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?: Error)?(?::| -) )+")


def outcome_of(error: BaseException) -> CallOutcome:
    """Return how a call ended that raised this exception."""
    by_cause = _by_cause(error)
    if by_cause is not None:
        return by_cause
    code = _detail(error).get("code")
    if isinstance(code, str) and code in _BY_CODE:
        return _BY_CODE[code]
    names = {base.__name__ for base in type(error).__mro__}
    for name, outcome in _BY_CLASS.items():
        if name in names:
            return outcome
    return _by_status(error)


def _by_status(error: BaseException) -> CallOutcome:
    """What the HTTP status says, where litellm had no name for it."""
    import httpx

    status = getattr(error, "status_code", None)
    if status == HTTPStatus.FORBIDDEN:
        return CallOutcome.AUTHENTICATION
    if isinstance(status, int) and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return CallOutcome.BAD_REQUEST
    refused = any(isinstance(cause, httpx.HTTPStatusError) for cause in _chain(error))
    # 500 is also what litellm says of an answer that it could not make sense of.
    if refused or status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return CallOutcome.SERVER_ERROR
    return CallOutcome.MALFORMED


def _by_cause(error: BaseException) -> CallOutcome | None:
    """What the chain of causes says; None: an answer came, and was JSON."""
    import aiohttp
    import httpx
    import openai

    for cause in _chain(error):
        if type(cause) is openai.OpenAIError:  # not a subclass: a key that is not there
            return CallOutcome.AUTHENTICATION
        if isinstance(cause, json.JSONDecodeError | UnicodeDecodeError):
            return CallOutcome.MALFORMED
        if isinstance(cause, httpx.TimeoutException | TimeoutError):
            return CallOutcome.TIMEOUT
        if isinstance(cause, httpx.TransportError | aiohttp.ClientError | ConnectionError):
            return CallOutcome.CONNECTION
    return None


def retry_after_s(error: BaseException, now_s: float) -> float | None:
    """Return how long the provider asks to wait, in s; None where it does not say.

    Args:
        error: The exception.
        now_s: Seconds since the epoch; a provider may name a date.
    """
    for cause in _chain(error):
        headers = getattr(getattr(cause, "response", None), "headers", None)
        text = headers.get("retry-after") if isinstance(headers, Mapping) else None
        if isinstance(text, str):
            return _wait_s(text.strip(), now_s)
    return None


def _wait_s(text: str, now_s: float) -> float | None:
    """Source: RFC 9110, section 10.2.3: a number of seconds or an HTTP date."""
    try:
        wait = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        wait = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now_s
    return max(0.0, wait) if wait < float("inf") else None


def sentence_of(error: BaseException) -> str:
    """Return what went wrong in the provider's own words, on one line."""
    message = _detail(error).get("message")
    text = message if isinstance(message, str) and message else str(error)
    text, _, _ = text.partition("Traceback (most recent call last)")
    text = _PREFIX.sub("", " ".join(text.split())) or type(error).__name__
    origin = list(_chain(error))[-1]
    if isinstance(origin, OSError | ValueError) and str(origin) not in text:
        return f"{text} {' '.join(str(origin).split())}"
    return text


def _detail(error: BaseException) -> Mapping[str, object]:
    """The error object in the provider's answer; empty where there is none."""
    for cause in _chain(error):
        body = getattr(cause, "body", None)
        inner = body.get("error", body) if isinstance(body, Mapping) else None
        if isinstance(inner, Mapping):
            return inner
    return {}


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, and what it came from, latest first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
