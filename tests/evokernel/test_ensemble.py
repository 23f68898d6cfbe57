from __future__ import annotations

import pytest

from archives.attempt import Attempt, Slot
from evokernel.ensemble import Ensemble, failed_models

MODELS = ("quick", "deep")


def asked(
    model: str, *, reason: str = "", cost_usd: float = 0.01, cost_s: float = 10.0, index: int = 0
) -> Attempt:
    return Attempt(
        slot=Slot(problem="p", generation=1, island=0, index=index),
        operator="llm.mutate",
        reason=reason,
        cost_s=cost_s,
        cost_usd=cost_usd,
        model=model,
    )


def ensemble() -> Ensemble:
    return Ensemble(MODELS, floor=0.1, memory=0.5)


def test_models_start_with_equal_shares() -> None:
    assert ensemble().shares(MODELS) == {"quick": 0.5, "deep": 0.5}


def test_equal_gains_for_less_money_bring_a_larger_share() -> None:
    found = ensemble()
    attempts = [asked("quick", cost_usd=0.01), asked("deep", cost_usd=0.04, cost_s=1.0)]
    found.close(1, attempts, {"quick": 0.2, "deep": 0.2})
    assert found.shares(MODELS) == pytest.approx(
        {"quick": 0.1 + 0.8 * 0.8, "deep": 0.1 + 0.8 * 0.2}
    )


def test_seconds_count_where_a_price_is_not_known() -> None:
    found = ensemble()
    attempts = [
        asked("quick", cost_usd=0.01, cost_s=40.0),
        asked("deep", cost_usd=0.0, cost_s=10.0),
    ]
    found.close(1, attempts, {"quick": 0.2, "deep": 0.2})
    assert found.shares(MODELS)["deep"] > found.shares(MODELS)["quick"]


def test_replies_without_a_program_cost_all_the_same() -> None:
    found = ensemble()
    wasted = [asked("deep", reason="llm_no_code", index=n) for n in range(3)]
    found.close(1, [asked("quick"), asked("deep"), *wasted], {"quick": 0.1, "deep": 0.1})
    assert found.shares(MODELS)["quick"] > 0.6


def test_generation_0_gives_no_credit() -> None:
    found = ensemble()
    found.close(0, [asked("quick"), asked("deep")], {"quick": 1.0})
    assert found.shares(MODELS) == {"quick": 0.5, "deep": 0.5}


def test_a_model_rests_longer_each_time_and_a_success_forgives_it() -> None:
    found = ensemble()
    failed = [asked("quick", reason="llm_connection"), asked("deep")]
    generation, rested = 0, []
    for _ in range(5):
        found.close(generation, failed, {})
        asleep = generation + 1
        while "quick" not in found.awake(asleep):
            asleep += 1
        rested.append(asleep - generation - 1)
        generation = asleep
    assert rested == [1, 2, 4, 8, 8]
    found.close(generation, [asked("quick")], {})
    found.close(generation + 1, failed, {})
    assert "quick" not in found.awake(generation + 2)
    assert "quick" in found.awake(generation + 3)


def test_a_resting_model_is_there_for_those_who_have_nobody_else() -> None:
    found = Ensemble(("quick",), floor=0.1, memory=0.5)
    found.close(1, [asked("quick", reason="llm_timeout")], {})
    assert found.awake(2) == ()
    assert found.employed() == ("quick",)
    assert found.employed(without={"quick"}) == ()


def test_a_refused_question_retires_all_models_until_they_are_reinstated() -> None:
    found = ensemble()
    found.close(1, [asked("quick", reason="llm_budget")], {})
    assert found.awake(2) == found.employed() == ()
    found.reinstate()
    assert found.awake(2) == MODELS


@pytest.mark.parametrize(
    ("reasons", "failed"),
    [
        (["llm_timeout", "llm_rate_limited"], True),
        (["llm_unavailable"], True),
        (["llm_timeout", ""], False),
        (["llm_no_code", "llm_no_code"], False),
        (["llm_filtered"], False),
        (["llm_budget"], False),
    ],
)
def test_only_a_providers_own_failures_are_held_against_a_model(
    reasons: list[str], failed: bool
) -> None:
    attempts = [asked("quick", reason=reason) for reason in reasons]
    assert failed_models(attempts) == ({"quick"} if failed else set())
