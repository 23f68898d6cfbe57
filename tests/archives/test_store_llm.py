"""Calls to language models are recorded once, and come back as they were."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from archives.llm_call import CallOutcome, Message
from archives.store import Store
from problems.errors import StoreError
from tests.archives.store_rows import RUN, P, Q, at, call, program, proposal


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "run", RUN, problems=[P, Q]) as opened:
        yield opened


def test_an_attempt_remembers_the_model_that_it_asked(store: Store) -> None:
    asked, plain = program(1), program(2)
    store.propose(proposal(at(0), asked, model="openai/large"), asked)
    store.propose(proposal(at(1), plain), plain)
    assert [attempt.model for attempt in store.attempts()] == ["openai/large", ""]


def test_a_call_comes_back_whole(store: Store) -> None:
    asked = call(at(3, 2, 1), 1, log="tried twice", tries=2)
    assert store.record_call(asked)
    assert store.call(1) == asked
    assert list(store.recorded_calls()) == [asked]
    (summary,) = store.calls()
    assert (summary.id, summary.slot, summary.number) == (1, asked.slot, 1)
    assert summary.prompt_hash == asked.prompt_hash == store.call(1).prompt_hash
    assert (summary.outcome, summary.cost_usd, summary.tries) == (CallOutcome.OK, 0.25, 2)


def test_what_is_not_known_stays_unknown(store: Store) -> None:
    failed = call(
        at(0),
        outcome=CallOutcome.TIMEOUT,
        text="",
        finish="",
        log="no answer in 120 s",
        prompt_tokens=None,
        completion_tokens=None,
        cost_usd=None,
    )
    store.record_call(failed)
    assert store.call(1) == failed
    (summary,) = store.calls()
    assert summary.cost_usd is None
    assert summary.prompt_tokens is None


def test_a_call_needs_no_attempt_and_an_attempt_no_call(store: Store) -> None:
    store.record_call(call(at(0)))
    assert store.attempts() == []
    candidate = program(1)
    store.propose(proposal(at(0), candidate, model="openai/large"), candidate)
    assert len(store.calls()) == 1


def test_the_first_call_of_a_number_stays(store: Store) -> None:
    first, second = call(at(0)), call(at(0), text="another reply")
    assert store.record_call(first)
    assert not store.record_call(second)
    assert list(store.recorded_calls()) == [first]
    assert store.record_call(call(at(0), 1))
    assert store.record_call(call(at(0, key=Q.key)))
    assert len(store.calls()) == 3


def test_calls_for_an_unknown_problem_are_refused(store: Store) -> None:
    stray = call(at(0, key="0" * 64))
    with pytest.raises(StoreError, match="no problem with the key"):
        store.record_call(stray)
    with pytest.raises(StoreError, match="no problem with the key"):
        store.calls("0" * 64)
    assert store.calls() == []


def test_text_that_no_encoding_can_hold_is_kept_as_it_is(store: Store) -> None:
    odd = "lone \ud800, zero \0, and \r\n"
    asked = call(at(0), text=odd, log="\udfff", messages=(Message(role="user", text=odd),))
    store.record_call(asked)
    read = store.call(1)
    assert (read.text, read.messages) == (asked.text, asked.messages)
    assert read.prompt_hash == asked.prompt_hash
    assert read.log == "\\udfff"


def test_summaries_come_as_recorded_and_whole_calls_by_slot(store: Store) -> None:
    slots = [at(1, 1), at(0, 1, 1), at(0, 1), at(0, 0, 0, Q.key), at(0)]
    for slot in slots:
        store.record_call(call(slot, 1))
        store.record_call(call(slot))
    assert [summary.slot for summary in store.calls()] == [slot for slot in slots for _ in "12"]
    assert [summary.id for summary in store.calls(Q.key)] == [7, 8]
    expected = [at(0), at(0, 1), at(1, 1), at(0, 1, 1), at(0, 0, 0, Q.key)]
    recorded = list(store.recorded_calls())
    assert [each.slot for each in recorded] == [slot for slot in expected for _ in "12"]
    assert [each.number for each in recorded] == [0, 1] * 5
    of_generation = store.recorded_calls(P.key, 1)
    assert {each.slot for each in of_generation} == {at(1, 1), at(0, 1, 1), at(0, 1)}


def test_going_through_many_calls_holds_up_no_writer(store: Store) -> None:
    for index in range(150):
        store.record_call(call(at(index)))
    seen = []
    for each in store.recorded_calls():
        seen.append(each.slot.index)
        store.record_call(replace(each, number=1))
    assert seen == list(range(150))
    assert len(store.calls()) == 300


@pytest.mark.parametrize("id", [0, 3, -1, 2**70])
def test_a_wrong_id_is_told_which_ids_there_are(store: Store, id: int) -> None:
    with pytest.raises(StoreError, match=f"no call {id} to a language model: it has made none"):
        store.call(id)
    store.record_call(call(at(0)))
    store.record_call(call(at(1)))
    with pytest.raises(StoreError, match=f"no call {id} to .* expected 1 to 2"):
        store.call(id)


def test_a_reader_sees_calls_while_the_engine_runs(store: Store) -> None:
    with Store.open(store.folder) as reader:
        store.record_call(call(at(0)))
        assert len(reader.calls()) == 1
        with pytest.raises(StoreError, match="for reading only"):
            reader.record_call(call(at(1)))


def test_a_damaged_call_is_one_sentence_and_leaves_the_others(store: Store) -> None:
    store.record_call(call(at(0)))
    store.record_call(call(at(1)))
    database = sqlite3.connect(store.folder / "run.db")
    with database:
        database.execute("UPDATE llm_call SET texts = x'00' WHERE id = 1")
    database.close()
    with pytest.raises(StoreError, match="damaged"):
        store.call(1)
    assert store.call(2) == call(at(1))
    assert len(store.calls()) == 2
