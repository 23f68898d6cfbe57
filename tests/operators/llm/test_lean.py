"""What litellm is spared, and what it must not be made to believe."""

from __future__ import annotations

from operators.llm.lean import name_model, unpriced
from operators.llm.loading import load_litellm
from operators.llm.prices import Prices

SERVER = "http://127.0.0.1:1/v1"


def test_a_model_of_ones_own_server_is_known_and_still_has_no_price() -> None:
    litellm = load_litellm()
    name_model(litellm, "openai/of-my-own", SERVER)
    assert litellm.get_model_info("of-my-own", custom_llm_provider="openai")["mode"] == "chat"
    assert Prices().of("openai/of-my-own") is None


def test_what_litellm_knows_or_concludes_of_a_name_stays() -> None:
    litellm = load_litellm()
    before = dict(litellm.model_cost)
    for model in ("openai/gpt-4o-mini", "openai/gpt-5.9", "ollama/of-my-own"):
        name_model(litellm, model, SERVER)
    assert dict(litellm.model_cost) == before
    listed = Prices().of("openai/gpt-4o-mini")
    assert listed is not None
    assert listed.input_usd > 0


def test_no_cost_is_worked_out_in_this_version_of_litellm() -> None:
    given = unpriced("openai/of-my-own", [{"role": "user", "content": "?"}])
    record = given["litellm_logging_obj"]
    answer = load_litellm().ModelResponse(model="gpt-4o-mini")
    assert record.response_cost_calculator(result=answer) is None  # type: ignore[attr-defined]
