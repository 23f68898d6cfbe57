"""The timing gate: who holds the device alone, and who shares in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.gate import Gate, Share


def timer(gate: Gate, order: list[str]) -> Callable[[], None]:
    """What times once, and notes it."""

    def time() -> None:
        with gate.exclusive():
            order.append("timed")

    return time


def sharer(gate: Gate, order: list[str]) -> Callable[[], None]:
    """What shares the device once, and notes it."""

    def share() -> None:
        with gate.shared():
            order.append("shared")

    return share


def test_shares_go_on_together_and_keep_whoever_times_out(tmp_path: Path) -> None:
    gate, other = Gate("gpu", tmp_path), Gate("gpu", tmp_path)
    timing, order = threading.Event(), []

    def time() -> None:
        with other.exclusive():
            order.append("timed")
            timing.set()

    thread = threading.Thread(target=time)
    with gate.shared(), other.shared():
        thread.start()
        assert not timing.wait(0.1)
        order.append("shared")
    thread.join(5)
    assert order == ["shared", "timed"]


def test_whoever_waits_to_time_comes_before_new_shares(tmp_path: Path) -> None:
    gate = Gate("gpu", tmp_path)
    order: list[str] = []

    works = (timer(gate, order), sharer(Gate("gpu", tmp_path), order))
    threads = [threading.Thread(target=work) for work in works]
    with Gate("gpu", tmp_path).shared():
        for thread in threads:
            thread.start()
            thread.join(0.2)
    for thread in threads:
        thread.join(5)
    assert order == ["timed", "shared"]


@pytest.mark.parametrize(
    ("in_a_row_s", "expected"),
    [(60.0, ["timed"] * 3 + ["shared"]), (0.0, ["timed", "shared", "timed", "timed"])],
    ids=["time is left", "time is over"],
)
def test_threads_that_wait_to_time_follow_each_other_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_a_row_s: float, expected: list[str]
) -> None:
    monkeypatch.setattr("evaluator.gate.IN_A_ROW_S", in_a_row_s)
    gate = Gate("gpu", tmp_path)
    order: list[str] = []

    time = timer(gate, order)
    works = (sharer(Gate("gpu", tmp_path), order), time, time)
    threads = [threading.Thread(target=work) for work in works]
    with gate.exclusive():
        for thread in threads:
            thread.start()
            thread.join(0.2)
        order.append("timed")
    for thread in threads:
        thread.join(5)
    assert order == expected


def test_a_gate_is_free_for_others_once_nobody_waits_to_time(tmp_path: Path) -> None:
    gate, other = Gate("gpu", tmp_path), Gate("gpu", tmp_path)
    order: list[str] = []

    def fail() -> None:
        with pytest.raises(ValueError, match="wrong"), gate.exclusive():
            raise ValueError("wrong")
        order.append("failed")

    thread = threading.Thread(target=fail)
    with gate.exclusive():
        thread.start()
        thread.join(0.2)
    thread.join(5)
    with other.exclusive():
        order.append("timed")
    assert order == ["failed", "timed"]


@pytest.mark.parametrize(
    ("longest_s", "expected"),
    [(60.0, ["first", "second", "timed"]), (0.0, ["first", "timed", "second"])],
    ids=["kept", "given back"],
)
def test_a_share_is_kept_between_pieces_of_work_while_they_are_short(
    tmp_path: Path, longest_s: float, expected: list[str]
) -> None:
    order: list[str] = []
    thread = threading.Thread(target=timer(Gate("gpu", tmp_path), order))
    with Share(Gate("gpu", tmp_path), longest_s) as share:
        with share.piece():
            thread.start()
            thread.join(0.2)
            order.append("first")
        thread.join(0.2)
        with share.piece():
            order.append("second")
    thread.join(5)
    assert order == expected


def test_a_share_is_given_back_when_work_fails(tmp_path: Path) -> None:
    order: list[str] = []
    with (
        pytest.raises(ValueError, match="wrong"),
        Share(Gate("gpu", tmp_path), 60) as share,
        share.piece(),
    ):
        raise ValueError("wrong")
    timer(Gate("gpu", tmp_path), order)()
    assert order == ["timed"]
