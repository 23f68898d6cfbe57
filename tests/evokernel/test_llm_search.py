"""The whole way over HTTP: a scripted model behind a real server, litellm, engine, store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from archives.attempt import Attempt
from archives.candidate import Candidate
from archives.evaluation import Status
from archives.export import canonical_export
from archives.llm_call import CallOutcome
from archives.records import RunState
from archives.store import Store
from evaluator.evaluator import Capacity
from evaluator.local import LocalEvaluator
from evokernel.config import resolve
from evokernel.launch import Plan, create_run, load_operators, sit
from evokernel.replay import ReplayEvaluator, create_replay
from problems.catalogue import load_level
from problems.problem import Scale
from tests.evokernel import apprentice, talk
from tests.evokernel import landscape as world
from tests.scripted_llm import Reply, Request, Script, ScriptedServer, fenced, in_order, refusal

LLM = 'operators.use=["llm.translate", "llm.mutate", "llm.crossover", "llm.repair"]'
MIXED = 'operators.use=["tests.evokernel.landscape:START", "tune"]'


@contextmanager
def finished(
    folder: Path,
    script: Script,
    *settings: str,
    evaluator: world.Landscape | None = None,
    count: int = 1,
) -> Iterator[tuple[Store, ScriptedServer]]:
    """A run that has ended, its store open, and the server it asked."""
    with ScriptedServer(script) as server:
        config = resolve(
            settings=[
                *world.SHAPE[:-2],
                "llm.retries=0",
                f'llm.api_base="{server.url}"',
                *settings,
            ],
            flags={"llm.models": ("openai/scripted",)},
        )
        plan = Plan(
            config=config,
            problems=tuple(world.problems(count)),
            operators=load_operators(config),
            device="cpu",
        )
        with world.new_store(folder, config, count) as store:
            sit(store, plan, evaluator=evaluator or world.Landscape())
            yield store, server


def test_three_improvements_are_found_in_order_and_lineage_shows_it(tmp_path: Path) -> None:
    settings = (LLM, "search.islands=2", "search.generations=10", "search.proposals=3")
    evaluator = world.Landscape(verdict=apprentice.verdict)
    with finished(tmp_path / "run", apprentice.apprentice, *settings, evaluator=evaluator) as (
        store,
        server,
    ):
        firsts: dict[str, Attempt] = {}
        for attempt in store.attempts():
            if attempt.candidate and attempt.duplicate_of is None:
                step = apprentice.step_of(store.candidate(attempt.candidate).source)
                if step and attempt.operator != "migrate":
                    firsts.setdefault(step, attempt)
        assert set(firsts) == set(apprentice.STEPS)
        order = [firsts[step].slot.generation for step in apprentice.STEPS]
        assert order == sorted(set(order))
        operators = [firsts[step].operator for step in apprentice.STEPS]
        assert operators == [
            "llm.translate",
            "llm.mutate",
            "llm.mutate",
            "llm.repair",
            "llm.crossover",
        ]
        assert _steps(store, firsts["tiled"].parents) == ["first"]
        assert _steps(store, firsts["broken"].parents) == ["tiled"]
        assert _steps(store, firsts["vector"].parents) == ["broken"]
        assert {"tiled", "vector"} <= set(_steps(store, firsts["both"].parents))
        assert world.best_of(store) == 4.0
        # Not once was a prompt refused for what it lacked.
        assert {call.outcome for call in store.calls()} == {CallOutcome.OK}
        assert len(server.requests) == len(store.calls())


def _steps(store: Store, slots: tuple[object, ...]) -> list[str]:
    found = [store.attempt(slot) for slot in slots]  # type: ignore[arg-type] # slots
    return [
        apprentice.step_of(store.candidate(attempt.result or attempt.candidate or "").source)
        for attempt in found
        if attempt is not None
    ]


def test_a_replay_asks_no_server_and_ends_alike(tmp_path: Path) -> None:
    evaluator = world.Landscape(verdict=apprentice.verdict)
    with finished(
        tmp_path / "run", apprentice.apprentice, LLM, "search.generations=5", evaluator=evaluator
    ) as (store, server):
        asked = len(server.requests)
        repeated, plan = create_replay(store, tmp_path / "again")
        with repeated:
            sit(repeated, plan, evaluator=ReplayEvaluator(store), replayed=store)
            assert canonical_export(repeated) == canonical_export(store)
        assert len(server.requests) == asked > 0


FAULTS = {
    "outage": (refusal(503, "overloaded"), "llm_server_error"),
    "too many": (refusal(429, "slow down"), "llm_rate_limited"),
    "no json": (Reply(body=b"{ this is no JSON"), "llm_malformed"),
    "no choice": (
        Reply(body=b'{"id": "1", "object": "chat.completion", "choices": []}'),
        "llm_empty",
    ),
    "filter": (Reply(finish="content_filter"), "llm_filtered"),
    "no code": (Reply(text="I would fuse the loops."), "llm_no_code"),
    "key": (refusal(401, "the key sk-scripted-0123456789 is not known"), "llm_authentication"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_provider_that_fails_never_ends_a_run(tmp_path: Path, fault: str) -> None:
    reply, reason = FAULTS[fault]
    with finished(tmp_path / "run", lambda _: reply, MIXED, "search.generations=3") as (store, _):
        assert store.run().state is RunState.FINISHED
        asked = [a for a in store.attempts() if a.model]
        assert asked
        reasons = {a.reason for a in asked}
        assert reason in reasons
        assert reasons <= {reason, "llm_unavailable"}
        last = [a for a in store.attempts(generation=3) if a.candidate and a.operator != "migrate"]
        assert len(last) >= 5


def test_keys_show_up_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-scripted-0123456789"
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={secret}\n")
    monkeypatch.setenv("OTHER_API_KEY", "another-0123456789")
    inherited: dict[str, str] = {}

    class Spying(world.Landscape):
        async def start(self) -> Capacity:
            inherited.update(os.environ)
            return await super().start()

    def quoting(request: Request) -> Reply:
        sent = request.headers["authorization"]
        return refusal(401, f"{sent} opens nothing")

    caplog.set_level("DEBUG")
    with finished(tmp_path / "run", quoting, "search.generations=2", evaluator=Spying()) as (
        store,
        server,
    ):
        assert secret in server.requests[0].headers["authorization"]
        assert all(secret not in request.prompt for request in server.requests)
        for summary in store.calls():
            assert secret not in repr(store.call(summary.id))
            assert secret not in summary.log
        assert "[key removed]" in store.calls()[0].log
        assert secret not in canonical_export(store)
    assert secret not in caplog.text
    assert not {secret, "another-0123456789"} & set(inherited.values())
    assert os.environ["OTHER_API_KEY"] == "another-0123456789"
    assert "OPENAI_API_KEY" not in os.environ
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert secret.encode() not in file.read_bytes()


def test_a_budget_in_dollars_is_kept_to(tmp_path: Path) -> None:
    prices = ("llm.input_price_usd=1.0", "llm.output_price_usd=2.0", "llm.max_output_tokens=500")
    number = iter(range(10**6))

    def new_each_time(request: Request) -> Reply:
        return Reply(text=talk.any_point("", str(next(number))))

    settings = (*prices, "llm.max_cost_usd=0.05", "search.generations=4")
    with finished(tmp_path / "run", new_each_time, *settings) as (store, _):
        spent = sum(call.cost_usd or 0.0 for call in store.calls())
        assert 0.01 < spent <= 0.05
        assert any(call.outcome is CallOutcome.BUDGET for call in store.calls())
        assert store.run().state is RunState.FINISHED
        assert sum(a.cost_usd for a in store.attempts()) == pytest.approx(spent)


def test_repeated_replies_cost_no_evaluation(tmp_path: Path) -> None:
    evaluator = world.Landscape()
    settings = (LLM, "search.generations=3", "evaluation.verify=false")
    module = world.PROGRAM
    with finished(
        tmp_path / "run", lambda _: Reply(text=fenced(module)), *settings, evaluator=evaluator
    ) as (store, server):
        assert len(server.requests) > 10
        assert len(evaluator.requests) == 2
        assert store.counts().evaluations == 2


def test_the_referee_judges_what_a_model_writes(tmp_path: Path) -> None:
    kernels = Path(__file__).parents[1] / "evaluator"
    good = (kernels / "honest/cpp_softmax.py").read_text()
    wrong = good.replace("1 / s", "2 / s")
    cheat = (kernels.parent / "zoo/cheats/lazy_tensor.py").read_text()
    replies = [Reply(text=fenced(module)) for module in (wrong, cheat, good)]
    (softmax,) = load_level(1, Scale.TINY, [23])
    with ScriptedServer(in_order(replies)) as server:
        config = resolve(
            settings=[
                'operators.use=["llm.translate"]',
                f'llm.api_base="{server.url}"',
                "search.islands=1",
                "search.initial=3",
                "search.generations=0",
                "evaluation.verify=false",
            ],
            flags={"llm.models": ("openai/scripted",)},
        )
        plan = Plan(
            config=config, problems=(softmax,), operators=load_operators(config), device="cpu"
        )
        with create_run(plan, tmp_path / "run") as store:
            sit(store, plan, evaluator=LocalEvaluator())
            verdicts = {
                store.candidate(record.candidate).source: record.evaluation
                for record in store.evaluations()
            }
            held = {elite.candidate for elite in store.elites(softmax.key)}
            assert Candidate.of(softmax.key, good).id in held
    assert verdicts[good].status is Status.OK
    assert verdicts[wrong].status is Status.WRONG_VALUE
    assert verdicts[cheat].status not in (Status.OK, Status.UNSTABLE)
