"""Models among the operators: asked side by side, in an order that no latency changes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from archives.attempt import AttemptState
from archives.evaluation import Evaluation
from archives.export import canonical_export
from archives.llm_call import CallOutcome
from archives.records import RunState
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from evokernel.config import RunConfig
from evokernel.replay import ReplayEvaluator
from operators.llm.client import Response
from operators.llm.patience import Consultation
from tests.evokernel import landscape as world
from tests.evokernel import talk


def run(
    folder: Path,
    talker: talk.Talker,
    *settings: str,
    count: int = 1,
    evaluator: world.Landscape | None = None,
) -> Store:
    """A finished run whose store is still open."""
    config = world.config(talk.MODELS, *settings)
    store = world.new_store(folder, config, count)
    asyncio.run(talk.engine_with(store, config, talker, evaluator).run())
    return store


def test_models_bring_elites_and_every_attempt_says_which_one_was_asked(tmp_path: Path) -> None:
    with run(tmp_path / "run", talk.Talker(), "search.generations=4") as store:
        asked = [a for a in store.attempts() if a.operator.startswith("llm.")]
        assert {a.operator for a in asked} >= {"llm.translate", "llm.mutate", "llm.crossover"}
        assert {a.model for a in asked} == {"test/one"}
        assert {a.model for a in store.attempts() if a not in asked} == {""}
        accepted = {t.operator for t in store.tallies() if t.accepted}
        assert accepted & {"llm.translate", "llm.mutate", "llm.crossover"}
        spent = sum(a.cost_usd for a in asked)
        assert spent == pytest.approx(sum(c.cost_usd or 0.0 for c in store.calls()))


def test_all_children_of_a_generation_wait_side_by_side(tmp_path: Path) -> None:
    talker = talk.Talker(delay_s=lambda _: 0.5)
    settings = (talk.LLM_ONLY, "search.islands=4", "search.proposals=5", "search.generations=1")
    with run(tmp_path / "run", talker, *settings):
        assert talker.peak == 20


def test_verdicts_are_reached_while_models_are_waited_for(tmp_path: Path) -> None:
    waiting: list[int] = []

    class Watching(world.Landscape):
        def judge(self, request: EvaluationRequest) -> Evaluation:
            waiting.append(talker.under_way)
            return super().judge(request)

    talker = talk.Talker(delay_s=lambda _: 0.1)
    settings = ("search.generations=3", "search.proposals=4")
    with run(tmp_path / "run", talker, *settings, evaluator=Watching(delay_s=0.02), count=2):
        assert sum(count > 0 for count in waiting) > len(waiting) / 3


def test_latencies_do_not_change_a_run(tmp_path: Path) -> None:
    exports = []
    for factor in (0, 1, -1):
        talker = talk.Talker(
            delay_s=lambda prompt, f=factor: 0.01 * abs(f) * (f * talk.draw(prompt) % 3)  # type: ignore[misc]
        )
        with run(tmp_path / str(factor), talker, "search.generations=3", count=2) as store:
            exports.append(canonical_export(store))
    assert exports[0] == exports[1] == exports[2]


async def cancelled(store: Store, config: RunConfig, talker: talk.Talker, after: int) -> None:
    """A run that is stopped once its model was asked so often."""
    running = asyncio.ensure_future(talk.engine_with(store, config, talker).run())
    while len(talker.prompts) < after and not running.done():
        await asyncio.sleep(0.001)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_cancelled_run_pays_for_no_answer_twice_and_reaches_the_same_end(tmp_path: Path) -> None:
    settings = ("search.generations=3", "search.proposals=6")
    with run(tmp_path / "whole", talk.Talker(), *settings) as store:
        expected = canonical_export(store)
        asked = len(store.calls())
    config = world.config(talk.MODELS, *settings)
    for after in range(2, asked, asked // 5):
        folder = tmp_path / str(after)
        first = talk.Talker(delay_s=lambda prompt: 0.001 * (talk.draw(prompt) % 30))
        with world.new_store(folder, config, 1) as store:
            asyncio.run(cancelled(store, config, first, after))
        with Store.open(folder, write=True) as store:
            paid = len(store.calls())
            assert paid < asked
            second = talk.Talker()
            asyncio.run(talk.engine_with(store, config, second).run())
            assert canonical_export(store) == expected
            assert len(second.prompts) == asked - paid


def test_a_run_killed_at_any_moment_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    script = Path(talk.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "8"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(script.parents[2])},
    )
    assert done.stdout == "8 resumed, 8 the same"


def test_a_run_whose_minutes_are_over_waits_for_no_model(tmp_path: Path) -> None:
    talker = talk.Talker(delay_s=lambda _: 60.0)
    started = time.monotonic()
    settings = ("budget.max_minutes=0.02", "evaluation.verify=false", "search.generations=50")
    with run(tmp_path / "run", talker, *settings) as store:
        assert time.monotonic() - started < 20
        outcomes = {call.outcome for call in store.calls()}
        assert outcomes <= {CallOutcome.TIMEOUT, CallOutcome.BUDGET}
        assert store.run().state is RunState.STOPPED


def test_replies_without_a_program_are_asked_for_again(tmp_path: Path) -> None:
    def mostly_prose(model: str, prompt: str) -> str:
        number = talk.draw(str(len(talker.prompts)))
        return "I would fuse it." if number % 10 < 6 else talk.any_point(model, str(number))

    settings = (talk.LLM_ONLY, "search.proposals=4", "search.generations=4")
    talker = talk.Talker(mostly_prose)
    with run(tmp_path / "run", talker, *settings) as store:
        attempts = [a for a in store.attempts() if a.operator.startswith("llm.")]
        missed = [a for a in attempts if a.candidate is None]
        assert len(missed) > 0.3 * len(attempts)
        born = Counter((a.slot.generation, a.slot.island) for a in attempts if a.candidate)
        assert born == {(0, i): 2 for i in range(3)} | {
            (g, i): 4 for g in range(1, 5) for i in range(3)
        }


def test_a_repeated_reply_is_never_evaluated_again(tmp_path: Path) -> None:
    def repeated(model: str, prompt: str) -> str:
        return talk.any_point(model, str(talk.draw(prompt) % 6))

    evaluator = world.Landscape()
    settings = (talk.LLM_ONLY, "search.generations=4", "evaluation.verify=false")
    with run(tmp_path / "run", talk.Talker(repeated), *settings, evaluator=evaluator) as store:
        asked = [request.candidate.id for request in evaluator.requests]
        assert len(asked) == len(set(asked)) <= 7
        assert sum(a.duplicate_of is not None for a in store.attempts()) > 10


def test_a_model_out_of_reach_rests_and_the_others_go_on(tmp_path: Path) -> None:
    talker = talk.Talker(lambda model, prompt: talk.failure(CallOutcome.CONNECTION))
    with run(tmp_path / "run", talker, "search.generations=12", "search.proposals=4") as store:
        tried = [
            generation
            for generation in range(13)
            if any(a.model for a in store.attempts(generation=generation))
        ]
        # It rests one generation, then two, then four.
        gaps = [after - before for before, after in pairwise(tried)]
        assert gaps == [2, 3, 5]
        children = [a for a in store.attempts(generation=12) if a.operator != "migrate"]
        assert len([a for a in children if a.candidate]) >= 10
        assert store.run().state is RunState.FINISHED


def test_a_model_that_comes_back_is_asked_as_before(tmp_path: Path) -> None:
    def for_a_while(model: str, prompt: str) -> str | Response:
        is_out = len(talker.prompts) < 30
        return talk.failure(CallOutcome.SERVER_ERROR) if is_out else talk.any_point(model, prompt)

    talker = talk.Talker(for_a_while)
    with run(tmp_path / "run", talker, talk.LLM_ONLY, "search.generations=8") as store:
        last = [a for a in store.attempts(generation=8) if a.model]
        assert len(last) >= 6
        assert all(a.candidate for a in last)


@pytest.mark.parametrize(
    ("limit", "calls"),
    [("llm.max_calls=9", 9), ("llm.max_cost_usd=0.02", 6), ("llm.problem_calls=5", 10)],
)
def test_a_reached_budget_ends_the_questions_and_nothing_else(
    tmp_path: Path, limit: str, calls: int
) -> None:
    talker = talk.Talker()
    with run(tmp_path / "run", talker, limit, "search.generations=6", count=2) as store:
        assert len(talker.prompts) == pytest.approx(calls, abs=1)
        assert len(talker.prompts) <= calls
        refused = [call for call in store.calls() if call.outcome is CallOutcome.BUDGET]
        assert refused
        assert limit.partition("=")[0] in refused[0].log
        assert store.run().state is RunState.FINISHED
        last = [a for a in store.attempts(generation=6) if a.operator != "migrate"]
        assert not any(a.model for a in last)
        assert sum(a.candidate is not None for a in last) >= 10


def test_a_larger_budget_lets_a_stopped_model_go_on(tmp_path: Path) -> None:
    with run(tmp_path / "run", talk.Talker(), "llm.max_calls=3", "search.generations=3"):
        pass
    config = world.config(talk.MODELS, "llm.max_calls=100", "search.generations=5")
    with Store.open(tmp_path / "run", write=True) as store:
        talker = talk.Talker()
        asyncio.run(talk.engine_with(store, config, talker).run())
        assert any(a.model and a.candidate for a in store.attempts(generation=4))


class _Mute(talk.Talker):
    async def ask(self, model: str, messages: object) -> Consultation:
        raise AssertionError("a replay asks nobody")


@pytest.mark.parametrize("limit", ["llm.max_calls=1000", "llm.max_calls=8"])
def test_a_replayed_run_asks_nobody_and_ends_alike(tmp_path: Path, limit: str) -> None:
    talker = talk.Talker(delay_s=lambda prompt: 0.001 * (talk.draw(prompt) % 10))
    models = 'llm.models=["test/one", "test/two"]'
    with run(tmp_path / "first", talker, models, limit, "search.generations=5", count=2) as first:
        config = world.config(models, limit, "search.generations=5")
        with world.new_store(tmp_path / "second", config) as second:
            engine = talk.engine_with(second, config, _Mute(), ReplayEvaluator(first), first)
            asyncio.run(engine.run())
            assert canonical_export(second) == canonical_export(first)
            assert len(second.calls()) == len(first.calls())


def test_the_better_model_is_asked_more_often(tmp_path: Path) -> None:
    def one_is_better(model: str, prompt: str) -> str | Response:
        if model == "test/good":
            return talk.any_point(model, prompt)
        return "Nothing comes to mind."

    settings = ('llm.models=["test/good", "test/bad"]', talk.LLM_ONLY, "search.generations=10")
    talker = talk.Talker(one_is_better)
    with run(tmp_path / "run", talker, *settings):
        late = Counter(talker.models[len(talker.models) // 2 :])
        assert late["test/good"] > late["test/bad"]


def test_unanswered_questions_leave_no_attempt_open(tmp_path: Path) -> None:
    talker = talk.Talker(lambda model, prompt: talk.failure(CallOutcome.TIMEOUT))
    with run(tmp_path / "run", talker, "search.generations=3") as store:
        failed = [a for a in store.attempts() if a.model]
        assert {a.state for a in failed} == {AttemptState.FAILED}
        assert {a.reason for a in failed} == {"llm_timeout"}


def test_the_documented_operator_asks_a_model(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/llm.md").read_text()
    names: dict[str, Any] = {}
    program = text.partition("```python\n")[2].partition("\n```\n")[0]
    exec(program, names)
    config = world.config(talk.MODELS)
    talker = talk.Talker()
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = talk.engine_with(store, config, talker, mine={"vectorise": names["VECTORISE"]})
        asyncio.run(engine.run())
        own = [a for a in store.attempts() if a.operator == "vectorise"]
    assert own
    assert any(a.candidate for a in own)
    assert {a.model for a in own} == {"test/one"}
    assert all(len(a.parents) == 1 for a in own)
    assert any(prompt.startswith("Vectorise the inner loop") for prompt in talker.prompts)
