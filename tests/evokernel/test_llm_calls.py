"""What the engine costs around a call is judged against calls of the same minutes."""

from __future__ import annotations

import pytest

from benchmarks.llm_calls import Calls, Share, calls_at_once
from tests.scripted_llm import Reply, Request, ScriptedServer


def share(cpu_s: float, ours_s: tuple[float, ...], plain_s: tuple[float, ...]) -> Share:
    around = Calls(ours_s=ours_s, plain_s=plain_s)
    return Share.of(around, cpu_s=cpu_s, calls=110, candidates=100)


def test_the_engine_is_what_a_search_takes_less_its_calls() -> None:
    found = share(0.77, (0.003,), (0.005,))
    assert found.candidate_s == pytest.approx(0.0077)
    assert found.engine_s == pytest.approx(0.004)
    assert found.engine == pytest.approx(0.8)
    assert found.whole == pytest.approx(1.4)


def test_a_slower_host_does_not_decide() -> None:
    """Twice the milliseconds are the same ratios; one disturbed round counts for little."""
    quick = share(0.73, (0.003,) * 3, (0.005,) * 3)
    slow = share(1.46, (0.006,) * 3, (0.010, 0.010, 0.050))
    assert slow.engine == pytest.approx(quick.engine)
    assert slow.whole == pytest.approx(quick.whole)


def test_what_is_over_its_target_is_marked() -> None:
    kept, missed = share(0.77, (0.003,), (0.005,)), share(0.99, (0.003,), (0.005,))
    assert [line.count("NOT KEPT") for line in kept.lines()] == [0, 0, 0]
    assert [line.count("NOT KEPT") for line in missed.lines()] == [0, 1, 0]
    assert "0.80 (target: at most 1.0, kept)" in "\n".join(kept.lines())


def test_rounds_before_and_after_count_alike() -> None:
    before = Calls(ours_s=(1.0,), plain_s=(2.0,))
    after = Calls(ours_s=(3.0,), plain_s=(4.0,))
    assert before + after == Calls(ours_s=(1.0, 3.0), plain_s=(2.0, 4.0))


def test_both_kinds_of_calls_are_measured_in_turn() -> None:
    asked: list[str] = []

    def answer(request: Request) -> Reply:
        asked.append(request.model)
        return Reply(text="yes")

    with ScriptedServer(answer) as server:
        found = calls_at_once(server.url, "a question", rounds=2, at_once=3)
    assert len(found.ours_s) == len(found.plain_s) == 2
    assert min(*found.ours_s, *found.plain_s) > 0
    # The first three of each make connections.
    assert asked == 3 * (["x"] * 3 + ["plain"] * 3)
