"""One question to one model, through litellm.

Whatever a provider does comes back as a `Response`; nothing is raised, nothing is tried again
(that is `operators.llm.patience`). Connections are kept between calls: litellm keeps one HTTP
client for each provider and key.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol

from archives.llm_call import CallOutcome, Message
from operators.llm.failures import outcome_of, retry_after_s, sentence_of
from operators.llm.keys import Keys, is_secret_name
from operators.llm.lean import name_model, unlogged, unpriced
from operators.llm.loading import load_litellm
from operators.llm.own_server import own_client
from operators.llm.prices import Prices
from problems.errors import ConfigError

__all__ = ["Client", "LitellmClient", "Question", "Response"]

MAX_LOG_CHARACTERS = 500
_SENT_OTHERWISE = {"messages", "model", "max_tokens", "temperature", "reasoning_effort"}
_NOT_FOR_THE_MODEL = {
    *("api_base", "api_version", "base_url", "client", "extra_headers", "fallbacks", "headers"),
    *("max_retries", "mock_response", "model_list", "n", "num_retries", "stream", "timeout"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a model is asked, and how.

    Attributes:
        model: Name of the model, as litellm knows it.
        messages: The conversation, oldest first.
        max_output_tokens: Tokens that may come back, reasoning included.
        temperature: Sampling temperature; None: the model's own.
        reasoning_effort: How long a reasoning model thinks; None: its own.
        parameters: More parameters, sent as they are.
        timeout_s: Seconds until the whole answer must be there.

    Raises:
        ConfigError: A parameter has another place in the configuration, or is a key.
    """

    model: str
    messages: tuple[Message, ...]
    max_output_tokens: int = 8192
    temperature: float | None = None
    reasoning_effort: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        for name in self.parameters:
            if name in _SENT_OTHERWISE | _NOT_FOR_THE_MODEL or is_secret_name(name):
                raise ConfigError(
                    f"llm.parameters holds {name!r}, which does not belong there: a key goes into "
                    "the environment or into .env, and what has a setting of its own under llm.* "
                    "is set by that"
                )

    @property
    def sampling(self) -> dict[str, object]:
        """The parameters that are sent with the messages, by litellm's names."""
        given = {
            "max_tokens": self.max_output_tokens,
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort,
        }
        return {name: value for name, value in given.items() if value is not None} | {
            **self.parameters
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What came of one request.

    Attributes:
        outcome: How it ended.
        text: The reply, without what the model thought before; "" unless `outcome` is `OK`.
        finish: Why the model stopped, such as "stop" or "length"; "" where unknown.
        prompt_tokens: Tokens sent, as the provider counts them; None: it did not say.
        completion_tokens: Tokens that came back, reasoning included; None: it did not say.
        cost_usd: Money that it cost; None: the price is not known, or the provider counted no
            tokens. A request that failed costs what the provider said of it: nothing.
        retry_after_s: Seconds that the provider asks to wait; None: it does not say.
        log: What went wrong, one line, no key in it; "" where nothing did.
    """

    outcome: CallOutcome
    text: str = ""
    finish: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    retry_after_s: float | None = None
    log: str = ""


class Client(Protocol):
    """Sends a question to a model, once."""

    async def ask(self, question: Question) -> Response:
        """Ask; a failure is a value."""
        ...


class LitellmClient:
    """Asks any provider or local server that litellm speaks to."""

    def __init__(
        self,
        *,
        keys: Keys,
        prices: Prices,
        api_base: str | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Prepare it; litellm is imported by `start`, or at the first question.

        Args:
            keys: What to remove from answers. The caller lends them to the environment.
            prices: What models cost.
            api_base: Address of a server of one's own; None: the provider's.
            now_s: Seconds since the epoch.
        """
        self._keys = keys
        self._prices = prices
        self._api_base = api_base
        self._now_s = now_s
        self._litellm: ModuleType | None = None
        self._own: Any = None
        self._named: set[str] = set()

    async def start(self) -> None:
        """Import litellm, which takes seconds, without holding up the event loop."""
        self._litellm = await asyncio.to_thread(load_litellm)

    async def close(self) -> None:
        """Close the connections that are kept, of every client in this process."""
        if self._litellm is None:
            return
        if self._own is not None:
            await self._own.close()
            self._own = None
        await self._litellm.close_litellm_async_clients()
        before = asyncio.all_tasks()
        # A closed client must not be found again; dropping one starts a task that ends it.
        self._litellm.in_memory_llm_clients_cache.flush_cache()
        await asyncio.gather(*(asyncio.all_tasks() - before))

    async def ask(self, question: Question) -> Response:
        """Ask once; whatever the provider does is a `Response`."""
        if self._litellm is None:
            await self.start()
        assert self._litellm is not None
        try:
            self._name(self._litellm, question.model)
            with unlogged():
                async with asyncio.timeout(question.timeout_s):
                    answer = await self._litellm.acompletion(**self._request(question))
        except TimeoutError:
            return Response(
                outcome=CallOutcome.TIMEOUT,
                cost_usd=self._free(question.model),
                log=f"no answer within {question.timeout_s:g} s",
            )
        # One of the two places where anything may be raised: litellm and each provider's code
        # under it raise what they like, and a provider's failure must never end a run.
        except Exception as error:  # noqa: BLE001
            return Response(
                outcome=outcome_of(error),
                cost_usd=self._free(question.model),
                retry_after_s=retry_after_s(error, self._now_s()),
                log=self._log(sentence_of(error)),
            )
        return self._response(question, answer)

    def _name(self, litellm: ModuleType, model: str) -> None:
        """Let litellm know a model of a server of one's own, once."""
        if self._api_base is not None and model not in self._named:
            self._named.add(model)
            name_model(litellm, model, self._api_base)

    def _request(self, question: Question) -> dict[str, Any]:
        """What litellm is called with."""
        sampling = question.sampling
        request: dict[str, Any] = {
            "model": question.model,
            "messages": [
                {"role": message.role, "content": message.text} for message in question.messages
            ],
            "timeout": question.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            # A server of one's own may take what litellm does not know of its model.
            "allowed_openai_params": sorted(sampling),
            **sampling,
        }
        if not self._prices.is_listed(question.model):
            request |= unpriced(question.model, request["messages"])
        if self._api_base is not None:
            request["api_base"] = self._api_base
            if question.model.startswith("openai/"):
                # The client of this protocol wants some key; a server without keys ignores it.
                request["api_key"] = os.environ.get("OPENAI_API_KEY", "none")
                request["client"] = self._client_for(self._api_base, request["api_key"])
        return request

    def _client_for(self, api_base: str, api_key: str) -> Any:  # noqa: ANN401 # openai's
        """The client for a server of one's own, made once; None: litellm makes one."""
        if self._own is None:
            self._own = own_client(api_base, api_key)
        return self._own

    def _response(self, question: Question, answer: Any) -> Response:  # noqa: ANN401 # untyped
        """Read an answer, as far as it can be read."""
        choices = getattr(answer, "choices", None) or []
        usage = getattr(answer, "usage", None)
        sent, came = _counts(usage)
        message = getattr(choices[0], "message", None) if choices else None
        text = getattr(message, "content", None) or ""
        finish = str(getattr(choices[0], "finish_reason", None) or "") if choices else ""
        outcome, log = CallOutcome.OK, ""
        if finish == "content_filter":
            outcome, log = CallOutcome.FILTERED, "the provider's filter withheld the reply"
        elif not choices:
            outcome, log = CallOutcome.EMPTY, "the answer holds no choice"
        elif not isinstance(text, str) or not text.strip():
            outcome, log = CallOutcome.EMPTY, f"the reply has no text (it ended with {finish!r})"
        return Response(
            outcome=outcome,
            text=self._keys.redact(text) if outcome is CallOutcome.OK else "",
            finish=finish,
            prompt_tokens=sent,
            completion_tokens=came,
            cost_usd=self._cost_usd(question.model, answer, sent, came),
            log=log,
        )

    def _cost_usd(
        self,
        model: str,
        answer: Any,  # noqa: ANN401 # untyped
        sent: int | None,
        came: int | None,
    ) -> float | None:
        price = self._prices.of(model)
        if price is None or sent is None or came is None:
            return None
        reported = getattr(answer, "_hidden_params", {}).get("response_cost")
        if self._prices.is_listed(model) and isinstance(reported, float):
            return reported
        return price.cost_usd(sent, came)

    def _free(self, model: str) -> float | None:
        """The cost of a request that failed."""
        return None if self._prices.of(model) is None else 0.0

    def _log(self, text: str) -> str:
        return self._keys.redact(text)[:MAX_LOG_CHARACTERS]


def _counts(usage: object) -> tuple[int | None, int | None]:
    """Tokens sent and come back; litellm says 0 of both where the provider did not count."""
    sent = getattr(usage, "prompt_tokens", None)
    came = getattr(usage, "completion_tokens", None)
    return (sent, came) if sent else (None, None)
