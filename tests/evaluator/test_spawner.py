"""Ending workers: whoever takes long to end holds nobody up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from evaluator.referee.deadlines import Deadlines
from evaluator.referee.device import core_sets
from evaluator.referee.spawner import Spawner, WorkerPlan


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    one = Spawner(Deadlines(), core_sets().other)
    yield one
    one.close()


def plan() -> WorkerPlan:
    return WorkerPlan(role="trace", cpus=core_sets().other, threads=1, memory_bytes=None)


def test_who_takes_long_to_end_holds_nobody_up(spawner: Spawner) -> None:
    slow = spawner.spawn(plan())
    codes: list[int | None] = []
    ending = threading.Thread(target=lambda: codes.append(slow.end(patience_s=2.0)))
    ending.start()
    time.sleep(0.1)
    began = time.monotonic()
    other = spawner.spawn(plan())
    assert other.end() == -signal.SIGKILL
    assert time.monotonic() - began < 1.5
    assert not codes, "the first one has not ended yet"
    ending.join(10)
    assert codes == [-signal.SIGKILL], "its patience is over"


def test_a_worker_whose_zygote_ended_meanwhile_is_lost(spawner: Spawner) -> None:
    slow = spawner.spawn(plan())
    codes: list[int | None] = []
    ending = threading.Thread(target=lambda: codes.append(slow.end(patience_s=5.0)))
    ending.start()
    time.sleep(0.1)
    assert spawner._process is not None
    spawner._process.kill()
    ending.join(10)
    assert codes == [None]
    assert slow.lost
    assert spawner.spawn(plan()).end() == -signal.SIGKILL, "another zygote is started"
