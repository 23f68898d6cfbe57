"""Open problems: who waits for whom."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from evaluator.referee.sessions import Sessions
from problems.problem import Problem, Scale


@dataclass
class Session:
    problem: Problem
    num_bytes: int = 1
    closed: bool = False
    ended: bool = False

    def close(self) -> None:
        self.closed = True


def problem(number: int) -> Problem:
    return Problem(
        level=0,
        id=number,
        name="P",
        family="test",
        scale=Scale.CUSTOM,
        source=f"SIZE = {number}",
    )


@pytest.mark.parametrize("side_by_side", [False, True])
def test_problems_are_opened_one_by_one_unless_the_opener_minds_the_memory(
    *, side_by_side: bool
) -> None:
    both = threading.Barrier(2)

    def opener(wanted: Problem) -> Session:
        both.wait(10 if side_by_side else 0.2)
        return Session(wanted)

    def borrow(number: int) -> bool:
        try:
            with sessions.borrow(problem(number)):
                return True
        except threading.BrokenBarrierError:
            return False

    sessions = Sessions(opener, limit_bytes=10, side_by_side=side_by_side)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(borrow, (1, 2))) == [side_by_side] * 2


def test_an_open_problem_is_used_while_another_one_is_being_opened() -> None:
    slow, opening, go_on = problem(2), threading.Event(), threading.Event()

    def opener(wanted: Problem) -> Session:
        if wanted.key == slow.key:
            opening.set()
            assert go_on.wait(10)
        return Session(wanted)

    sessions = Sessions(opener, limit_bytes=10)
    with sessions.borrow(problem(1)) as first, ThreadPoolExecutor(1) as threads:

        def borrow_slow() -> str:
            with sessions.borrow(slow) as session:
                return session.problem.key

        later = threads.submit(borrow_slow)
        assert opening.wait(10)
        with sessions.borrow(problem(1)) as again:
            assert again is first
        assert not later.done()
        go_on.set()
        assert later.result(10) == slow.key


def test_a_problem_that_cannot_be_opened_does_not_keep_others_from_it() -> None:
    tries = []

    def opener(wanted: Problem) -> Session:
        tries.append(wanted.key)
        if len(tries) == 1:
            raise OSError("no memory")
        return Session(wanted)

    sessions = Sessions(opener, limit_bytes=10)
    with pytest.raises(OSError, match="no memory"), sessions.borrow(problem(1)):
        pass
    with sessions.borrow(problem(1)) as session:
        assert not session.closed
    assert len(tries) == 2


def test_what_nobody_uses_makes_room() -> None:
    sessions = Sessions(Session, limit_bytes=2)
    with (
        sessions.borrow(problem(1)) as first,
        sessions.borrow(problem(2)),
        sessions.borrow(problem(3)),
    ):
        assert not first.closed
    with sessions.borrow(problem(4)):
        assert first.closed


def is_closed(session: Session) -> bool:
    return session.closed


def test_a_problem_that_is_dropped_is_closed_when_the_last_one_gives_it_back() -> None:
    sessions = Sessions(Session, limit_bytes=10)
    with sessions.borrow(problem(1)) as first:
        with sessions.borrow(problem(1)) as same:
            assert same is first
        sessions.drop(problem(1))
        with sessions.borrow(problem(1)) as healthy:
            assert healthy is first, "nothing of it has ended"
        first.ended = True
        sessions.drop(problem(1))
        assert not is_closed(first)
        with sessions.borrow(problem(1)) as other:
            assert other is not first
        assert not is_closed(first)
    assert is_closed(first)
    sessions.drop(problem(1))
    assert not is_closed(other), "it was opened since"
    other.ended = True
    sessions.drop(problem(1))
    assert is_closed(other)
