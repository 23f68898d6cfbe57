"""Runs of older formats: `format_*.sql` are dumps of such, schema and rows, never to change."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect

from archives.attempt import AttemptState
from archives.export import canonical_export
from archives.rates import Rates
from archives.records import FORMAT_VERSION, RunCounts
from archives.store import Store
from problems.errors import StoreError
from tests.archives.store_rows import DEVICE, RUN, P, Q, at, call, ok, program, proposal


def restored(folder: Path, version: int) -> Path:
    """A run's folder with the store of an older format in it."""
    folder.mkdir()
    database = sqlite3.connect(folder / "run.db")
    database.executescript(Path(__file__).with_name(f"format_{version}.sql").read_text())
    assert database.execute("SELECT format_version FROM run").fetchall() == [(version,)]
    database.execute("PRAGMA journal_mode=WAL")
    database.close()
    return folder


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return restored(tmp_path / "old", 1)


def schema(folder: Path) -> dict[str, object]:
    """Everything that the database says of its tables."""
    engine = create_engine(f"sqlite:///{folder / 'run.db'}")
    found = inspect(engine)
    tables: dict[str, object] = {}
    for name in found.get_table_names():
        columns = [
            {**column, "type": str(column["type"])}  # types of equal columns are other objects
            for column in found.get_columns(name)
        ]
        tables[name] = (
            columns,
            found.get_pk_constraint(name),
            sorted(found.get_foreign_keys(name), key=str),
            sorted(found.get_unique_constraints(name), key=str),
            sorted(found.get_indexes(name), key=str),
        )
    engine.dispose()
    return tables


def check_search(store: Store) -> None:
    """Check what the old run had recorded."""
    assert store.problems() == [P, Q]
    attempts = store.attempts(P.key)
    states = [AttemptState.ARCHIVED, AttemptState.FAILED, AttemptState.PROPOSED]
    assert [attempt.state for attempt in attempts] == states
    assert [attempt.model for attempt in attempts] == ["", "", ""]
    assert store.attempt(at(0, 1)) == proposal(at(0, 1), program(1, block=4), at(0), note="it's B")
    assert store.evaluation(P.key, program(1).id) == ok(2.0)
    assert [elite.slot for elite in store.elites(P.key)] == [at(0)]
    assert store.counts() == RunCounts(attempts=3, evaluations=2)
    assert store.calls() == []
    assert list(store.recorded_calls()) == []


def test_reading_an_old_run_leaves_it_untouched(old: Path) -> None:
    before = (old / "run.db").read_bytes()
    with Store.open(old) as store:
        check_search(store)
        with pytest.raises(StoreError, match="no call 1 to a language model: it has made none"):
            store.call(1)
        assert store.run().format_version == 1
    assert (old / "run.db").read_bytes() == before


def test_opening_an_old_run_for_writing_brings_it_up_to_date(old: Path, tmp_path: Path) -> None:
    with Store.open(old) as store:
        before = canonical_export(store)
    with Store.open(old, write=True) as store:
        check_search(store)
        assert store.run().format_version == FORMAT_VERSION
        assert canonical_export(store) == before
        store.record_call(call(at(1, 1)))
        child = program(5)
        store.propose(proposal(at(1, 1), child, model="openai/large"), child)
        store.record(at(0, 1), ok(3.0))
    with Store.open(old, write=True) as store:
        assert store.call(1) == call(at(1, 1))
        assert [attempt.model for attempt in store.attempts(P.key, 1)] == ["", "openai/large"]
    with Store.create(tmp_path / "new", RUN):
        pass
    assert schema(old) == schema(tmp_path / "new")


def test_a_run_without_rates_is_read_as_one_and_gets_room_for_them(tmp_path: Path) -> None:
    folder = restored(tmp_path / "second", 2)
    before = (folder / "run.db").read_bytes()
    with Store.open(folder) as store:
        assert store.run().rates is None
        assert store.run().format_version == 2
        assert store.call(1) == call(at(1, 1))
    assert (folder / "run.db").read_bytes() == before
    rates = Rates(read_gbps=9.5, write_gbps=8, copy_gbps=7, fp32=0.1, launch_ms=0.002)
    with Store.open(folder, write=True) as store:
        assert store.run().rates is None
        store.set_device(DEVICE, noise_floor=0.02, referee_version="4", rates=rates)
    with Store.open(folder) as store:
        assert store.run().rates == rates
        assert store.run().format_version == FORMAT_VERSION
        assert store.call(1) == call(at(1, 1))
    with Store.create(tmp_path / "new", RUN):
        pass
    assert schema(folder) == schema(tmp_path / "new")


def test_a_seed_can_be_left_in_an_old_run(old: Path) -> None:
    with Store.open(old) as guest:
        guest.request_seed(Q.key, "yours.py", "x = 2")
        assert guest.run().format_version == 1
    with Store.open(old, write=True) as store:
        assert [seed.name for seed in store.waiting_seeds()] == ["mine.py", "yours.py"]


def test_an_upgrade_that_fails_leaves_the_old_run_as_it_was(old: Path, tmp_path: Path) -> None:
    database = sqlite3.connect(old / "run.db")
    database.execute("CREATE TABLE llm_call (id INTEGER)")
    database.close()
    before = schema(old)
    with pytest.raises(StoreError, match="llm_call already exists"):
        Store.open(old, write=True)
    assert schema(old) == before
    with Store.open(old) as store:
        check_search(store)
    shutil.move(old, tmp_path / "moved")  # no lock or connection is left behind
