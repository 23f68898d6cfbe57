"""`evokernel llm`: what models cost and brought, and what exactly was said."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from archives.attempt import Attempt, AttemptState, Slot
from archives.candidate import Candidate
from archives.evaluation import Evaluation, Status
from archives.llm_call import CallOutcome, LlmCall, Message
from archives.records import MIGRATE, GenerationOutcome, Insertion, RunRecord
from archives.store import Store
from evokernel.cli.main import build_app
from evokernel.spending import read_spending
from tests.evokernel import landscape as world
from tests.evokernel.conftest import KERNEL, evaluation, insertion, problem

FIRST, SECOND = problem(1, "First"), problem(2, "Second")
LARGE, SMALL, LOCAL = "openai/large", "openai/small", "openai/local"
MUTATE, REPAIR = "llm.mutate", "llm.repair"
SECRETIVE = "What is [bold]this[/bold]?\n\n```python\nx = '\ud800'\n```\n"


def call(*words: object, code: int = 0) -> str:
    """Run a command and return what it wrote to stdout, or to stderr where it fails."""
    result = CliRunner(env={"COLUMNS": "160"}).invoke(build_app("llm"), ["llm", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def as_json(*words: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(call(*words, "--json"))


def slot(index: int, island: int = 0, key: str = FIRST.key) -> Slot:
    return Slot(problem=key, generation=1, island=island, index=index)


def asked(
    place: Slot, model: str, operator: str, outcome: CallOutcome = CallOutcome.OK, **more: object
) -> LlmCall:
    values: dict[str, object] = {
        "messages": (
            Message(role="system", text="You write kernels."),
            Message(role="user", text=SECRETIVE),
        ),
        "parameters": {"temperature": 0.5},
        "latency_s": 2.0,
        "cost_usd": 0.0,
        **more,
    }
    if outcome is CallOutcome.OK:
        spent = {"text": "Faster.\n", "prompt_tokens": 100, "completion_tokens": 40}
        values = {"finish": "stop", **spent, "cost_usd": 0.25, **values, **more}
    values |= {"slot": place, "operator": operator, "model": model, "outcome": outcome}
    return LlmCall(**{"number": 0, **values})  # type: ignore[arg-type]


def propose(
    store: Store, call_of: LlmCall, number: int | None, verdict: Evaluation | None = None
) -> tuple[Slot, Candidate] | None:
    """Record an attempt for a call: its candidate by a number, or none."""
    place = call_of.slot
    values = {"slot": place, "operator": call_of.operator, "model": call_of.model}
    if number is None:
        failed = Attempt(**values, state=AttemptState.FAILED, reason="no_code")  # type: ignore[arg-type]
        store.propose(failed, None)
        return None
    candidate = Candidate.of(place.problem, KERNEL + f"\nNUMBER = {number}\n")
    store.propose(Attempt(**values, candidate=candidate.id), candidate)  # type: ignore[arg-type]
    if verdict is not None:
        store.record(place, verdict)
    return place, candidate


def fill(store: Store) -> None:
    """One generation of two problems on two islands, by three models, one without a price."""
    broken = Evaluation(status=Status.CRASHED, reason="segfault")
    calls = [
        asked(slot(0), LARGE, MUTATE, cost_usd=0.25),
        asked(slot(0), LARGE, MUTATE, cost_usd=0.5, number=1, latency_s=4.0),
        asked(slot(1), LARGE, MUTATE, CallOutcome.TIMEOUT, log="no answer\nin 120 s", tries=5),
        asked(slot(2), LARGE, REPAIR, cost_usd=0.125),
        asked(slot(0, 1), SMALL, MUTATE, cost_usd=0.0625),
        asked(slot(1, 1), SMALL, MUTATE, cost_usd=0.0625),
        asked(slot(2, 1), SMALL, MUTATE, CallOutcome.BUDGET, tries=0, latency_s=0.0),
        asked(slot(0, key=SECOND.key), LOCAL, MUTATE, cost_usd=None, prompt_tokens=None),
    ]
    for each in calls:
        assert store.record_call(each)
    twice = propose(store, calls[0], 1, evaluation(2.0))
    propose(store, calls[2], None)
    propose(store, calls[3], 2, broken)
    thrice = propose(store, calls[4], 3, evaluation(3.0))
    assert twice is not None
    assert thrice is not None
    again = Attempt(
        slot=slot(1, 1),
        operator=MUTATE,
        model=SMALL,
        state=AttemptState.EVALUATED,
        candidate=twice[1].id,
        result=twice[1].id,
        duplicate_of=twice[0],
    )
    store.propose(again, None)
    migrant = Attempt(
        slot=slot(3),
        operator=MIGRATE,
        state=AttemptState.ARCHIVED,
        parents=(thrice[0],),
        candidate=thrice[1].id,
        result=thrice[1].id,
    )
    cell = (0, 0, 2)
    insertions: tuple[Insertion, ...] = (
        insertion(*twice, 2.0, cell),
        insertion(*thrice, 3.0, cell),
        insertion(slot(3), thrice[1], 3.0, cell),
    )
    outcome = GenerationOutcome(insertions=insertions, migrants=(migrant,))
    store.finish_generation(FIRST.key, 1, outcome)
    propose(store, calls[7], 4, evaluation(1.5))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "talk"
    record = RunRecord(name="talk", created="now", config_json="{}", rng_seed=0, scale="small")
    with Store.create(folder, record, problems=[FIRST, SECOND]) as store:
        fill(store)
    return folder


def test_each_model_and_operator_has_its_costs_and_its_yield(run: Path) -> None:
    spending = as_json(run)
    pairs = [(line["model"], line["operator"]) for line in spending["lines"]]
    assert pairs == [(LARGE, MUTATE), (LARGE, REPAIR), (LOCAL, MUTATE), (SMALL, MUTATE)]
    large, repair, local, small = spending["lines"]
    assert large == {
        "model": LARGE,
        "operator": MUTATE,
        "calls": 3,
        "sent": 3,
        "failures": {"timeout": 1},
        "failed": 1,
        "failed_share": pytest.approx(1 / 3),
        "prompt_tokens": 200,
        "completion_tokens": 80,
        "uncounted": 0,
        "cost_usd": 0.75,
        "unpriced": 0,
        "latency_s": pytest.approx(8 / 3),
        "proposals": 2,
        "candidates": 1,
        "repeated": 0,
        "repeated_share": 0.0,
        "correct": 1,
        "accepted": 1,
        "gain": pytest.approx(math.log(2)),
        "best_speedup": 2.0,
    }
    assert (repair["candidates"], repair["correct"], repair["best_speedup"]) == (1, 0, None)
    assert (local["correct"], local["accepted"], local["gain"]) == (1, 0, 0)
    # The migrant is nobody's child, and what was known already is no merit of the model.
    assert (small["accepted"], small["correct"], small["repeated"]) == (1, 1, 1)
    assert small["gain"] == pytest.approx(math.log(3) - math.log(2))
    assert small["best_speedup"] == 3.0


def test_the_total_is_over_all_models(run: Path) -> None:
    total = as_json(run)["total"]
    assert (total["calls"], total["sent"], total["failed"]) == (8, 7, 2)
    assert total["failures"] == {"budget": 1, "timeout": 1}
    assert (total["proposals"], total["candidates"], total["repeated"]) == (6, 5, 1)
    assert total["failed_share"] == 0.25
    assert total["repeated_share"] == 0.2
    assert total["gain"] == pytest.approx(math.log(3))
    assert total["best_speedup"] == 3.0


def test_what_is_not_known_is_said_and_never_zero(run: Path) -> None:
    spending = as_json(run)
    local = spending["lines"][2]
    assert (local["cost_usd"], local["unpriced"]) == (None, 1)
    assert (local["prompt_tokens"], local["completion_tokens"], local["uncounted"]) == (None, 40, 1)
    assert (spending["total"]["cost_usd"], spending["total"]["unpriced"]) == (1.0, 1)
    text = call(run)
    assert text.startswith("talk: 8 calls, $1.0000 + 1 unknown, accepted children 2, gain 1.10\n")
    assert "Calls whose price is not known, left out of the sums: 1." in text
    assert "Replies whose tokens the provider did not count: 1." in text
    spent, _ = (line for line in text.splitlines() if line.strip().startswith(LOCAL))
    assert "cost unknown" in spent
    assert "$" not in spent


def test_people_see_what_was_wasted_and_how_calls_failed(run: Path) -> None:
    text = call(run)
    assert "2 of 8 calls (25%) brought no reply: budget 1, timeout 1" in text
    assert "1 of 5 candidates (20%) repeated one that was known already" in text
    rows = [line.split() for line in text.splitlines() if line.strip().startswith(LARGE)]
    assert rows[0][:5] == [LARGE, MUTATE, "3", "3", "1"]
    assert rows[0][-2:] == ["timeout", "1"]
    assert rows[-2][-2:] == ["0.69", "2.00x"]


def test_one_problem_alone(run: Path) -> None:
    for name in ("2", "1/2"):
        spending = as_json(run, "--problem", name)
        assert [line["model"] for line in spending["lines"]] == [LOCAL]
        assert spending["total"]["calls"] == 1
    assert len(as_json(run, "--calls", "--problem", "1/1")) == 7


def test_calls_are_listed_one_a_line_with_their_ids(run: Path) -> None:
    lines = call(run, "--calls").splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, 9))
    assert (
        "generation 1, island 0, attempt 0, call 1  openai/large  llm.mutate  ok (stop)"
        in (lines[1])
    )
    assert lines[2].endswith("timeout  tokens unknown sent, unknown received  cost $0.0000  "
                             "2.00 s in 5 tries  no answer in 120 s")  # fmt: skip
    assert lines[6].endswith("budget  not sent")
    assert "cost unknown" in lines[7]
    listed = as_json(run, "--calls")
    assert [each["call"] for each in listed] == list(range(1, 9))
    assert [each["outcome"] for each in listed][2] == "timeout"
    assert all("messages" not in each for each in listed)


def test_a_call_shows_exactly_what_was_sent_and_answered(run: Path) -> None:
    with Store.open(run) as store:
        expected = store.call(2)
    shown = as_json(run, "--call", 2)
    assert shown["messages"] == [
        {"role": "system", "text": "You write kernels."},
        {"role": "user", "text": SECRETIVE.replace("\ud800", "\\ud800")},
    ]
    assert shown["reply"] == "Faster.\n"
    assert shown["parameters"] == {"temperature": 0.5}
    assert shown["prompt_hash"] == expected.prompt_hash
    assert (shown["call"], shown["level"], shown["id"], shown["number"]) == (2, 1, 1, 1)
    assert (shown["prompt_tokens"], shown["cost_usd"], shown["latency_s"]) == (100, 0.5, 4.0)
    text = call(run, "--call", 2)
    assert "--- user ---\n" + SECRETIVE.replace("\ud800", "\\ud800") in text
    assert text.endswith("--- reply ---\nFaster.\n\n")
    assert "outcome ok, finish stop" in text
    assert "tokens 100 sent, 40 received  cost $0.5000  4.00 s\n" in text
    assert "temperature=0.5" in text


def test_a_failed_call_says_why_and_has_no_reply(run: Path) -> None:
    text = call(run, "--call", 3)
    assert "outcome timeout: no answer in 120 s" in text
    assert "--- reply ---" not in text
    assert "not sent" in call(run, "--call", 7)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--call", "99"), "the run has no call 99 to a language model, expected 1 to 8"),
        (("--call", "0"), "expected 1 to 8"),
        (("--call", "1", "--calls"), "leave out --calls and --problem"),
        (("--problem", "1/77"), "--problem 1/77 names no problem of the run"),
        (("--problem", "x"), "expected one out of 1/1, 1/2"),
    ],
)
def test_a_mistake_is_one_sentence(run: Path, words: tuple[str, ...], sentence: str) -> None:
    error = call(run, *words, code=2)
    assert sentence in error
    assert error.count("\n") == 1


def test_a_run_that_asked_no_model_says_so(small_run: Path) -> None:
    assert call(small_run) == "small: no language model was asked\n"
    assert as_json(small_run)["lines"] == []
    assert as_json(small_run)["total"]["cost_usd"] == 0
    assert call(small_run, "--calls") == ""
    assert "it has made none" in call(small_run, "--call", "1", code=2)


def test_gain_and_accepted_children_are_those_of_the_report(tmp_path: Path) -> None:
    config = world.config("search.generations=4", "evaluation.verify=false")
    with world.new_store(tmp_path / "run", config) as store:
        world.sit(store, config)
        tallies = store.tallies()
    # Every attempt but migrants now claims to come from a model, so that all are compared.
    database = sqlite3.connect(tmp_path / "run" / "run.db")
    with database:
        database.execute("UPDATE attempt SET model = 'm' WHERE operator != ?", (MIGRATE,))
    database.close()
    expected: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for tally in tallies:
        sums = expected[tally.operator]
        sums[0] += tally.attempts
        sums[1] += tally.accepted
        sums[2] += tally.gain
    with Store.open(tmp_path / "run") as store:
        lines = read_spending(store).lines
    found = {line.operator: [line.proposals, line.accepted, line.gain] for line in lines}
    assert found.keys() == expected.keys()
    for operator, sums in expected.items():
        assert found[operator] == pytest.approx(sums), operator
