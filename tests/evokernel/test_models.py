from __future__ import annotations

from pathlib import Path

import pytest

from evokernel.config import LlmConfig, resolve
from evokernel.launch import load_operators
from evokernel.models import LLM_OPERATORS, check_models
from problems.errors import ConfigError

LOCAL = "http://127.0.0.1:9/v1"


def test_without_models_nothing_is_checked(tmp_path: Path) -> None:
    assert check_models(LlmConfig(), tmp_path) == ()


def test_a_missing_key_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = LlmConfig(models=("openai/gpt-4o",))
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        check_models(config, tmp_path)
    (note,) = check_models(config, tmp_path, asks=False)
    assert "OPENAI_API_KEY" in note
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-from-a-file\n")
    assert check_models(config, tmp_path) == ()


def test_a_price_that_is_not_known_is_told_and_forbids_a_limit_of_money(tmp_path: Path) -> None:
    config = LlmConfig(models=("openai/mine",), api_base=LOCAL)
    (note,) = check_models(config, tmp_path)
    assert "llm.input_price_usd" in note
    for limit in ({"max_cost_usd": 5.0}, {"problem_cost_usd": 5.0}):
        limited = config.model_copy(update=limit)
        with pytest.raises(ConfigError, match=r"price of the model 'openai/mine' is not known"):
            check_models(limited, tmp_path)
        priced = limited.model_copy(update={"input_price_usd": 0.0, "output_price_usd": 0.0})
        assert check_models(priced, tmp_path) == ()


@pytest.mark.parametrize("name", ["api_key", "timeout", "max_tokens"])
def test_a_parameter_that_has_another_place_is_refused(tmp_path: Path, name: str) -> None:
    config = LlmConfig(models=("openai/mine",), api_base=LOCAL, parameters={name: "x"})
    with pytest.raises(ConfigError, match=name):
        check_models(config, tmp_path)


def test_the_operators_that_ask_join_where_a_model_is_named() -> None:
    flags = {"llm.models": ("openai/mine",)}
    assert set(LLM_OPERATORS) <= set(load_operators(resolve(flags=flags)))
    assert not set(LLM_OPERATORS) & set(load_operators(resolve()))


def test_those_that_are_chosen_by_hand_stay_alone() -> None:
    config = resolve(
        settings=['operators.use=["sketch", "llm.mutate"]'], flags={"llm.models": ("openai/mine",)}
    )
    assert list(load_operators(config)) == ["seed", "sketch", "llm.mutate"]


def test_an_operator_that_asks_needs_a_model() -> None:
    with pytest.raises(ConfigError, match="--llm MODEL"):
        load_operators(resolve(settings=['operators.use=["llm.mutate"]']))


def test_nested_parameters_pass_through_the_configuration() -> None:
    config = resolve(settings=['llm.parameters.thinking={type="enabled", budget_tokens=2048}'])
    assert config.llm.parameters == {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    assert type(config).model_validate_json(config.model_dump_json()) == config
