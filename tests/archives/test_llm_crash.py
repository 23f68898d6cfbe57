"""An answer that was recorded is paid for once: a kill loses and doubles none."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np

from archives.store import Store
from tests.archives.store_rows import RUN, P, at, call

WRITER = """
    import sys, pathlib
    from archives.store import Store
    from tests.archives.store_rows import at, call

    with Store.open(pathlib.Path(sys.argv[1]), write=True) as store:
        known = len(store.calls())
        # A resumed engine that asked the last question again would change nothing.
        if known:
            assert not store.record_call(call(at(known - 1), text="another answer"))
        for index in range(known, known + 100_000):
            assert store.record_call(call(at(index)))
            print(index, flush=True)
"""


def kill_after(run: Path, num_lines: int, delay_s: float) -> int:
    """Let a writer record, kill it, and return the last call that it acknowledged."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(run)]
    root = Path(__file__).parent.parent.parent
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
    assert writer.stdout is not None
    with writer:
        lines = [writer.stdout.readline() for _ in range(num_lines)]
        time.sleep(delay_s)
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
    whole = [int(line) for line in lines if line.endswith("\n")]
    assert whole, "the writer wrote nothing"
    return whole[-1]


def test_a_kill_loses_and_doubles_no_call(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with Store.create(run, RUN, problems=[P]):
        pass
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(5):
        acknowledged = kill_after(run, int(rng.integers(1, 24)), float(rng.uniform(0, 0.02)))
        database = sqlite3.connect(run / "run.db")
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        database.close()
        with Store.open(run) as store:
            recorded = list(store.recorded_calls())
        assert recorded == [call(at(index)) for index in range(len(recorded))]
        assert len(recorded) > max(acknowledged, held)
        held = len(recorded)
