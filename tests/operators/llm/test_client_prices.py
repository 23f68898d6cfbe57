import pytest

from archives.llm_call import Message
from operators.llm.prices import Price, Prices, prompt_tokens_at_most


def test_listed_prices_come_before_configured_ones() -> None:
    prices = Prices.per_million(1.0, 2.0)
    listed = prices.of("openai/gpt-4o")
    assert listed is not None
    assert listed == prices.of("gpt-4o") == Prices().of("openai/gpt-4o")
    assert listed.output_usd > listed.input_usd > 0
    assert prices.is_listed("openai/gpt-4o")
    assert prices.of("openai/scripted") == Price(input_usd=1e-6, output_usd=2e-6)
    assert not prices.is_listed("openai/scripted")


def test_a_name_alone_is_not_another_providers_price() -> None:
    assert Prices().of("hosted_vllm/gpt-4o") is None
    assert Prices().of("nobody-knows-this") is None


def test_the_most_that_a_call_may_cost() -> None:
    assert Prices.per_million(1.0, 2.0).most_usd("openai/scripted", 1000, 500) == pytest.approx(
        0.002
    )
    assert Prices().most_usd("openai/scripted", 1000, 500) is None


def test_the_estimate_of_a_prompt_is_not_passed() -> None:
    from operators.llm.loading import load_litellm

    code = "    for (int i = 0; i < n; ++i) out[i] = a[i] * 0x1.8p-3f + __expf(b[i]);\n" * 50
    messages = [Message(role="user", text=code)]
    counted = load_litellm().token_counter(
        model="gpt-4o", messages=[{"role": "user", "content": code}]
    )
    assert counted <= prompt_tokens_at_most(messages) <= 3 * counted
