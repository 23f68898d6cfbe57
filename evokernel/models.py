"""From the `llm` settings to models that can be asked: keys, prices, retries, parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from archives.llm_call import CallOutcome, Message
from evokernel.allowance import Bill
from evokernel.config import LlmConfig
from operators.llm.client import LitellmClient, Question, Response
from operators.llm.keys import load_keys
from operators.llm.patience import Consultation, Patience, PatientClient
from operators.llm.prices import Prices
from problems.errors import ConfigError

__all__ = ["LLM_OPERATORS", "ProviderModels", "RecordedModels", "check_models", "prices_of"]

LLM_OPERATORS = ("llm.translate", "llm.mutate", "llm.crossover", "llm.repair")
"""Operators that join a run for which models are named."""


def check_models(config: LlmConfig, folder: Path, *, asks: bool = True) -> tuple[str, ...]:
    """Check that the models of a run can be asked, before anything starts.

    Args:
        config: The settings.
        folder: Where `.env` may lie.
        asks: False where nobody will be asked: then a missing key is only told.

    Returns:
        One sentence for each model whose key is missing or whose price is not known.

    Raises:
        ConfigError: A model has no key or no provider, a parameter does not belong there, or money
            is limited and a price is not known.
    """
    if not config.models:
        return ()
    keys = load_keys(folder)
    _question(config, "", ())
    missing = [keys.missing_key(model, config.api_base) for model in config.models]
    missing = [sentence for sentence in missing if sentence]
    if missing and asks:
        raise ConfigError(missing[0])
    prices = prices_of(config)
    unknown = [model for model in config.models if prices.of(model) is None]
    how = (
        "give it in dollars per million tokens with --set llm.input_price_usd=... "
        "--set llm.output_price_usd=... (0 where it costs nothing)"
    )
    is_limited = config.max_cost_usd is not None or config.problem_cost_usd is not None
    if unknown and is_limited:
        raise ConfigError(
            f"the cost is limited, but the price of the model {unknown[0]!r} is not known: {how}"
        )
    unpriced = [
        f"the price of the model {model!r} is not known, its cost is shown as unknown: {how}"
        for model in unknown
    ]
    return (*missing, *unpriced)


def prices_of(config: LlmConfig) -> Prices:
    """Return what models cost by the settings; litellm's list comes first."""
    return Prices.per_million(config.input_price_usd, config.output_price_usd)


class ProviderModels:
    """Asks the providers; use it as an asynchronous context.

    Keys of `.env` are in the environment as long as the context lasts.

    Attributes:
        parameters: Sampling parameters that are sent with every question.
    """

    def __init__(self, config: LlmConfig, *, folder: Path, rng_seed: int) -> None:
        """Prepare; nothing is asked yet.

        Args:
            config: The settings.
            folder: Where `.env` may lie.
            rng_seed: Root of the jitter between retries.

        Raises:
            ConfigError: `.env` is there and cannot be read.
        """
        self._config = config
        self.parameters: Mapping[str, object] = _question(config, "", ()).sampling
        keys = load_keys(folder)
        self._lent = keys.lent()
        self._prices = prices_of(config)
        self._client = LitellmClient(keys=keys, prices=self._prices, api_base=config.api_base)
        self._patient = PatientClient(
            self._client,
            patience=Patience(retries=config.retries),
            in_flight=config.in_flight,
            jitter=np.random.Generator(np.random.PCG64(rng_seed)).random,
        )

    async def __aenter__(self) -> Self:
        await self._client.start()
        self._lent.__enter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lent.__exit__(kind, error, trace)
        await self._client.close()

    def most(self, model: str, prompt_tokens: int) -> Bill:
        """Return what one request with a prompt of so many tokens may cost at most."""
        most = self._config.max_output_tokens
        return Bill(
            calls=1,
            tokens=prompt_tokens + most,
            cost_usd=self._prices.most_usd(model, prompt_tokens, most) or 0.0,
        )

    async def ask(self, model: str, messages: Sequence[Message]) -> Consultation:
        """Ask; whatever happens is a value, never an exception."""
        return await self._patient.ask(_question(self._config, model, tuple(messages)))


class RecordedModels:
    """Stands in for providers in a replay: what was not recorded has no answer."""

    def __init__(self) -> None:
        """Nothing is needed."""
        self.parameters: Mapping[str, object] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def most(self, model: str, prompt_tokens: int) -> Bill:
        """Return that nothing is spent."""
        return Bill()

    async def ask(self, model: str, messages: Sequence[Message]) -> Consultation:
        """Return that there is no answer."""
        log = "a replay asks nobody, and the earlier run did not ask this"
        response = Response(outcome=CallOutcome.UNAVAILABLE, log=log)
        return Consultation(response=response, cost_usd=0.0)


def _question(config: LlmConfig, model: str, messages: tuple[Message, ...]) -> Question:
    return Question(
        model=model,
        messages=messages,
        max_output_tokens=config.max_output_tokens,
        temperature=config.temperature,
        reasoning_effort=config.reasoning_effort,
        parameters=dict(config.parameters),
        timeout_s=config.timeout_s,
    )
