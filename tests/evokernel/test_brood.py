from __future__ import annotations

from evokernel.brood import Nest
from evokernel.register import KnownIds


def nest(wanted: int, tries: int) -> Nest:
    return Nest(
        island=0,
        seeds=(),
        num_seeds=0,
        first=2,
        wanted=wanted,
        tries=tries,
        known=KnownIds(set()),
    )


def test_a_round_asks_for_as_many_as_are_missing() -> None:
    found = nest(4, 8)
    assert list(found.next_round()) == [2, 3, 4, 5]
    for is_born in (True, False, True, False):
        found.count(is_born=is_born, asked_model=False)
    assert list(found.next_round()) == [6, 7]
    for _ in range(2):
        found.count(is_born=True, asked_model=False)
    assert list(found.next_round()) == []


def test_operators_without_a_model_are_asked_as_often_again_and_no_more() -> None:
    found = nest(2, 4)
    slots = []
    while asked := list(found.next_round()):
        slots += asked
        for _ in asked:
            found.count(is_born=False, asked_model=False)
    assert slots == [2, 3, 4, 5]


def test_a_model_that_brings_nothing_gets_eight_tries_for_each_child() -> None:
    found = nest(2, 4)
    slots = 0
    while asked := list(found.next_round()):
        slots += len(asked)
        for _ in asked:
            found.count(is_born=False, asked_model=True)
    assert slots == 16


def test_a_nest_with_nobody_to_ask_is_done() -> None:
    found = nest(3, 6)
    for _ in found.next_round():
        found.is_done = True
    assert list(found.next_round()) == []
