"""Turns on a large problem: who has the one place of its sets, and what lies there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from evaluator.referee.cuda.turns import Turn, Turns

PATIENCE_S = 20.0


class Place:
    """Notes what becomes of the place and of its memory."""

    def __init__(self) -> None:
        self.drawn: list[int] = []
        self.notes: list[str] = []
        self.others_wait = False
        self.turns = Turns(
            self.admitted, lambda: self.others_wait, self.draw, lambda: self.notes.append("rests")
        )

    def until_waiting(self, count: int) -> None:
        """Wait until so many wait for the place."""
        until_s = time.monotonic() + PATIENCE_S
        while len(self.turns._waiting) < count:
            assert time.monotonic() < until_s
            time.sleep(0.001)

    @contextmanager
    def admitted(self) -> Iterator[None]:
        self.notes.append("has memory")
        yield
        self.notes.append("has none")

    def draw(self, number: int) -> str:
        self.drawn.append(number)
        return f"draw {len(self.drawn)} of set {number}"


@pytest.fixture
def place() -> Place:
    return Place()


def together(place: Place, works: Sequence[Callable[[Turn[str]], None]]) -> None:
    """Let candidates do something side by side, each in a thread.

    They come in this order, while somebody else has the place, and wait for it.
    """

    def judged(work: Callable[[Turn[str]], None]) -> None:
        with place.turns.candidate() as turn:
            work(turn)

    threads = [threading.Thread(target=judged, args=(work,)) for work in works]
    with place.turns.candidate() as first, first.beside():
        for number, thread in enumerate(threads):
            thread.start()
            place.until_waiting(number + 1)
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_candidates_that_are_there_together_are_judged_set_by_set(place: Place) -> None:
    met = threading.Barrier(3)

    told: list[str] = []

    def meets_all(turn: Turn[str]) -> None:
        for number in range(3):
            with turn.lying(number) as drawn:
                told.append(drawn)
            met.wait(PATIENCE_S)

    together(place, [meets_all] * 3)
    assert place.drawn == [0, 1, 2]
    assert told == [f"draw {n + 1} of set {n}" for n in range(3) for _ in range(3)], "all of one"


def test_who_wants_what_lies_there_comes_before_who_has_waited_longer(place: Place) -> None:
    order: list[int] = []

    def meets(number: int) -> Callable[[Turn[str]], None]:
        def work(turn: Turn[str]) -> None:
            with turn.lying(number):
                order.append(number)

        return work

    together(place, [meets(0), meets(2), meets(1), meets(0)])
    assert order == [0, 0, 2, 1]
    assert place.drawn == [0, 2, 1]


def test_a_candidate_that_comes_alone_meets_sets_of_its_own(place: Place) -> None:
    for _ in range(2):
        with place.turns.candidate() as turn:
            for number in range(2):
                with turn.lying(number):
                    pass
    assert place.drawn == [0, 1, 0, 1]


def test_one_uses_the_place_at_a_time(place: Place) -> None:
    inside: list[int] = []
    most: list[int] = []

    def meets_one(turn: Turn[str]) -> None:
        with turn.lying(0):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()

    together(place, [meets_one] * 4)
    assert most == [1] * 4


def test_timing_leaves_no_set_and_what_is_beside_leaves_it(place: Place) -> None:
    with place.turns.candidate() as turn:
        with turn.lying(0):
            pass
        with turn.beside():
            pass
        with turn.lying(0):
            pass
        assert place.drawn == [0]
        with turn.timed():
            pass
        with turn.lying(0):
            pass
    assert place.drawn == [0, 0]


def test_timing_is_nobody_s_to_keep(place: Place) -> None:
    """Whoever was timed does not come before those that have waited longer."""
    order: list[str] = []

    def is_timed(turn: Turn[str]) -> None:
        for _ in range(2):
            with turn.timed():
                order.append("timed")
                if len(order) == 1:
                    place.until_waiting(1)

    def meets(turn: Turn[str]) -> None:
        with turn.lying(0):
            order.append("met")

    together(place, [is_timed, meets])
    assert order == ["timed", "met", "timed"]


def test_memory_is_held_from_the_first_turn_until_no_candidate_is_left(place: Place) -> None:
    with place.turns.candidate() as first, place.turns.candidate() as second:
        assert not place.notes, "building needs none"
        with first.lying(0):
            pass
        with second.timed():
            pass
        first.leave()
        assert place.notes == ["has memory"]
    assert place.notes == ["has memory", "rests", "has none"]
    with place.turns.candidate():
        pass
    assert len(place.notes) == 3


def test_a_set_that_cannot_be_drawn_is_drawn_anew_for_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int) -> None:
        raise OSError(f"no set {number}")

    with place.turns.candidate() as turn:
        with monkeypatch.context() as patched:
            patched.setattr(place.turns, "_draw", fail)
            with pytest.raises(OSError, match="no set 0"), turn.lying(0):
                pass
        with turn.lying(0):
            pass
    assert place.drawn == [0]
    assert place.notes[-1] == "has none"


def test_where_others_wait_for_memory_it_is_given_back_first(place: Place) -> None:
    begun = threading.Event()

    def comes_later() -> None:
        with place.turns.candidate() as turn, turn.lying(0):
            place.notes.append("later one")
            begun.set()

    thread = threading.Thread(target=comes_later)
    with place.turns.candidate() as turn, turn.lying(0):
        place.others_wait = True
        thread.start()
        assert not begun.wait(0.1)
        place.notes.append("first one")
    assert begun.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert place.notes[:5] == ["has memory", "first one", "rests", "has none", "has memory"]
    assert place.notes[5] == "later one"
