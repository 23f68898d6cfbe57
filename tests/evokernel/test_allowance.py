from __future__ import annotations

import pytest

from evokernel.allowance import Allowance, Bill
from evokernel.config import LlmConfig

CALL = Bill(calls=1, tokens=1000, cost_usd=0.5)


def test_without_limits_nothing_is_refused() -> None:
    allowance = Allowance(LlmConfig())
    for _ in range(100):
        assert allowance.refusal("p", CALL) == ""
        allowance.reserve("p", CALL)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LlmConfig(max_cost_usd=1.5), "llm.max_cost_usd"),
        (LlmConfig(max_calls=3), "llm.max_calls"),
        (LlmConfig(max_tokens=3000), "llm.max_tokens"),
        (LlmConfig(problem_cost_usd=1.5), "llm.problem_cost_usd"),
        (LlmConfig(problem_calls=3), "llm.problem_calls"),
        (LlmConfig(problem_tokens=3000), "llm.problem_tokens"),
    ],
)
def test_calls_under_way_together_cannot_pass_a_limit(config: LlmConfig, name: str) -> None:
    allowance = Allowance(config)
    for _ in range(3):
        assert allowance.refusal("p", CALL) == ""
        allowance.reserve("p", CALL)
    assert name in allowance.refusal("p", CALL)
    other = allowance.refusal("another", CALL)
    assert bool(other) == (".max_" in name)


def test_what_a_call_cost_takes_the_place_of_its_estimate() -> None:
    allowance = Allowance(LlmConfig(max_cost_usd=1.0, max_tokens=2500))
    for _ in range(2):
        allowance.reserve("p", CALL)
    assert allowance.refusal("p", CALL)
    allowance.settle("p", CALL, Bill(calls=1, tokens=100, cost_usd=0.01))
    allowance.settle("p", CALL, Bill())
    assert allowance.refusal("p", CALL) == ""
    assert allowance.spent == Bill(calls=1, tokens=100, cost_usd=0.01)


def test_retries_count() -> None:
    allowance = Allowance(LlmConfig(max_calls=5))
    allowance.reserve("p", CALL)
    allowance.settle("p", CALL, Bill(calls=5, tokens=10, cost_usd=0.0))
    assert "5 spent" in allowance.refusal("p", CALL)


def test_a_price_that_is_not_known_is_no_zero() -> None:
    allowance = Allowance(LlmConfig())
    allowance.reserve("p", CALL)
    allowance.settle("p", CALL, Bill(calls=1, tokens=10, unpriced=1))
    assert allowance.spent.unpriced == 1


def test_many_small_reservations_leave_no_dust() -> None:
    allowance = Allowance(LlmConfig(max_cost_usd=1.0))
    tenth = Bill(calls=1, tokens=1, cost_usd=0.1)
    for _ in range(1000):
        allowance.reserve("p", tenth)
        allowance.settle("p", tenth, Bill())
    assert allowance.refusal("p", Bill(cost_usd=1.0)) == ""
