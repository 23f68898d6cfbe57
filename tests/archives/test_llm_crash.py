"""An answer that was recorded is paid for once: a kill loses and doubles none."""

import sqlite3
from pathlib import Path

import numpy as np

from archives.store import Store
from tests.archives.killed import Writers
from tests.archives.store_rows import RUN, P, at, call

WRITER = """
from archives.store import Store
from tests.archives.store_rows import at, call


def write(run):
    with Store.open(run, write=True) as store:
        known = len(store.calls())
        # A resumed engine that asked the last question again would change nothing.
        if known:
            assert not store.record_call(call(at(known - 1), text="another answer"))
        for index in range(known, known + 100_000):
            assert store.record_call(call(at(index)))
            print(index, flush=True)
"""


def test_a_kill_loses_and_doubles_no_call(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with Store.create(run, RUN, problems=[P]):
        pass
    rng = np.random.default_rng(7)
    held = 0
    with Writers(WRITER) as writers:
        for _ in range(5):
            lines = writers.kill(run, int(rng.integers(1, 24)), float(rng.uniform(0, 0.02)))
            database = sqlite3.connect(run / "run.db")
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            database.close()
            with Store.open(run) as store:
                recorded = list(store.recorded_calls())
            assert recorded == [call(at(index)) for index in range(len(recorded))]
            assert len(recorded) > max(int(lines[-1]), held)
            held = len(recorded)
