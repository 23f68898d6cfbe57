"""What the sets of timed legs are, and which call is compared."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evaluator.referee.inputs import TimedDeck
from evaluator.wire import TIMED_VARIANTS

CARDS = len(TIMED_VARIANTS) + 2


@pytest.fixture
def deck() -> TimedDeck:
    return TimedDeck(TIMED_VARIANTS, np.random.default_rng(3))


def test_as_many_legs_as_there_are_cards_meet_every_distribution(deck: TimedDeck) -> None:
    for _ in range(20):
        compared = []
        for _ in range(CARDS):
            hand = deck.deal(5)
            compared.append(hand.variants[hand.call])
            deck.compared(hand)
        assert Counter(compared) == {one: 1 + (one in ("own", "spiked")) for one in TIMED_VARIANTS}


def test_a_leg_that_is_not_compared_takes_no_card(deck: TimedDeck) -> None:
    for _ in range(50):
        deck.deal(3)
    compared = []
    for _ in range(CARDS):
        hand = deck.deal(1)
        deck.compared(hand)
        compared.append(hand.variants[0])
    assert set(compared) == set(TIMED_VARIANTS)


def test_legs_that_are_not_compared_do_not_tell_what_comes(deck: TimedDeck) -> None:
    assert len({hand.variants[hand.call] for hand in (deck.deal(2) for _ in range(60))}) == 5


def test_nothing_tells_which_call_is_compared(deck: TimedDeck) -> None:
    places, compared, others = Counter[int](), Counter[str](), Counter[str]()
    for _ in range(CARDS * 400):
        hand = deck.deal(4)
        places[hand.call] += 1
        compared[hand.variants[hand.call]] += 1
        others.update(one for at, one in enumerate(hand.variants) if at != hand.call)
        deck.compared(hand)
    for place in range(4):
        assert places[place] / places.total() == pytest.approx(0.25, abs=0.03)
    for variant in TIMED_VARIANTS:
        share = compared[variant] / compared.total()
        assert others[variant] / others.total() == pytest.approx(share, abs=0.03)


def test_a_problem_that_permits_its_own_distribution_alone_meets_that() -> None:
    deck = TimedDeck(("own",), np.random.default_rng(1))
    assert deck.deal(3).variants == ("own",) * 3
