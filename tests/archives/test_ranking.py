from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives.attempt import Slot
from archives.grid import Elite
from archives.ranking import Ranking


def elite(name: str, objective: float, index: int = 0, cell: int = 0) -> Elite:
    return Elite(
        cell=(cell,),
        objective=objective,
        slot=Slot(problem="p", generation=0, island=0, index=index),
        candidate=name,
    )


@given(
    objectives=st.lists(st.floats(-5, 5), max_size=20),
    size=st.integers(1, 6),
    gone=st.sets(st.integers(0, 19)),
)
def test_it_holds_the_best_of_what_was_offered_and_not_withdrawn(
    objectives: list[float], size: int, gone: set[int]
) -> None:
    ranking = Ranking(size)
    offers = [elite(str(i), one, i, cell=i % 3) for i, one in enumerate(objectives)]
    for offer in offers:
        ranking.add(offer)
    for index in gone:
        ranking.withdraw(str(index))
    left = [offer for i, offer in enumerate(offers) if i not in gone]
    expected = sorted(left, key=lambda one: (-one.objective, one.slot))[:size]
    assert list(ranking.elites()) == expected
    assert len(ranking) == len(expected)
    assert ranking.best == (expected[0] if expected else None)


def test_a_candidate_that_comes_again_is_held_once() -> None:
    ranking = Ranking(3)
    ranking.add(elite("one", 0.5))
    ranking.add(elite("one", 0.5, index=7))
    assert [one.slot.index for one in ranking.elites()] == [0]
    assert [one.candidate for one in ranking.withdraw("one")] == ["one"]
    assert ranking.withdraw("one") == ()


def test_every_one_that_is_held_is_drawn_and_no_other() -> None:
    ranking = Ranking(3)
    for index in range(5):
        ranking.add(elite(str(index), float(index)))
    drawn = {ranking.sample(np.random.default_rng(seed))[0].candidate for seed in range(40)}
    assert drawn == {"2", "3", "4"}
    assert len(ranking.sample(np.random.default_rng(0), 9)) == 3
    assert Ranking(1).sample(np.random.default_rng(0)) == ()


def test_one_that_could_hold_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Ranking(0)
