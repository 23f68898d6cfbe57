from __future__ import annotations

from archives.attempt import Slot
from evokernel.brood import Brood, Nest
from evokernel.choosing import Wants
from evokernel.config import SearchConfig
from evokernel.knowledge import Knowledge
from evokernel.register import KnownIds
from evokernel.search import ProblemSearch
from operators.operator import Parent
from tests.evokernel import landscape as world


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


def test_islands_take_turns_at_the_programs_that_found_a_problem() -> None:
    search = ProblemSearch.begin(world.problem(1), 0, world.config("search.islands=2"))
    knowledge = Knowledge(search=search, relatives=[], device=world.DEVICE, recall=_nobody)
    config = SearchConfig(initial=1)
    brood = Brood.plan(search, 0, [("mine", "source")], config, knowledge)
    brood.found(["sketch", "sketch", "compiler"])
    slots = [(nest, index) for nest in brood.nests for index in nest.next_round()]
    slots.sort(key=lambda pair: brood.order(brood.slot(*pair)))
    # One more child on each island is chosen as ever.
    assert [(nest.island, nest.founder(index)) for nest, index in slots] == [
        (0, "sketch"),
        (1, "sketch"),
        (0, "compiler"),
        (1, ""),
        (0, ""),
    ]
    # What has brought no program is not asked for again.
    assert [list(nest.next_round()) for nest in brood.nests] == [[], []]


def _nobody(search: ProblemSearch, slot: Slot, candidate: str) -> Parent:
    raise AssertionError("nobody is to be recalled")


def test_an_operator_that_brought_nothing_is_asked_again_only_where_there_is_nobody_else() -> None:
    one = Wants(least=1, most=1)
    operators = {"tune": one, "splice": one, "sketch": one}
    found = nest(1, 2)
    assert list(found.able(operators)) == ["tune", "splice", "sketch"]
    found.leave_out("splice", is_final=False)
    assert list(found.able(operators)) == ["tune", "sketch"]
    found.leave_out("tune", is_final=False)
    found.leave_out("sketch", is_final=True)
    assert list(found.able(operators)) == ["tune", "splice"]
    # What has nothing at all costs the others no try.
    slots = []
    while asked := list(found.next_round()):
        slots += asked
    assert len(slots) == 3
