import pytest

from archives.attempt import Attempt, AttemptState, Slot
from archives.lineage import ancestors, attempts_of, tree

SPEEDUPS = {"seed": 1.0, "sketch": 1.5, "tuned": 3.0, "spliced": 4.5}


def at(generation: int, index: int = 0, island: int = 0) -> Slot:
    return Slot(problem="p", generation=generation, island=island, index=index)


def made(slot: Slot, operator: str, candidate: str | None, *parents: Slot) -> Attempt:
    return Attempt(
        slot=slot,
        operator=operator,
        parents=parents,
        state=AttemptState.ARCHIVED,
        candidate=candidate,
        result=candidate,
    )


FAMILY = (
    made(at(0), "seed", "seed"),
    made(at(0, 1), "sketch", "sketch"),
    made(at(1), "tune", "tuned", at(0, 1)),
    made(at(1, 9, 1), "migrate", "tuned", at(1)),
    made(at(2, 0, 1), "splice", "spliced", at(1, 9, 1), at(0)),
    made(at(2, 1, 1), "tune", "spliced", at(1, 9, 1)),
    made(at(3), "tune", None, at(2, 0, 1)),
)


def test_a_candidate_comes_from_its_first_attempt() -> None:
    assert [a.slot for a in attempts_of(FAMILY, "spliced")] == [at(2, 0, 1), at(2, 1, 1)]
    assert attempts_of(FAMILY, "unheard of") == ()


def test_ancestors_come_before_their_children_with_gain_and_depth() -> None:
    steps = ancestors(reversed(FAMILY), at(2, 0, 1), SPEEDUPS)
    assert [(s.attempt.operator, s.depth, s.speedup, s.gain) for s in steps] == [
        ("seed", 0, 1.0, None),
        ("sketch", 0, 1.5, None),
        ("tune", 1, 3.0, 2.0),
        ("migrate", 1, 3.0, 1.0),
        ("splice", 2, 4.5, 1.5),
    ]


def test_a_failed_child_has_ancestors_and_no_gain() -> None:
    last = ancestors(FAMILY, at(3), SPEEDUPS)[-1]
    assert (last.depth, last.speedup, last.gain) == (3, None, None)


def test_an_unknown_attempt_is_an_error() -> None:
    with pytest.raises(KeyError):
        ancestors(FAMILY, at(9), SPEEDUPS)


def test_a_lineage_is_drawn_as_a_tree_from_the_youngest() -> None:
    lines = tree(ancestors(FAMILY, at(2, 0, 1), SPEEDUPS))
    assert [branch + step.attempt.operator for branch, step in lines] == [
        "splice",
        "├─ migrate",
        "│  └─ tune",
        "│     └─ sketch",
        "└─ seed",
    ]
    assert tree(()) == ()


def test_a_shared_ancestor_is_drawn_in_full_once() -> None:
    family = (
        made(at(0), "seed", "seed"),
        made(at(1), "tune", "a", at(0)),
        made(at(2), "tune", "b", at(1)),
        made(at(2, 1), "tune", "c", at(1)),
        made(at(3), "splice", "d", at(2), at(2, 1)),
    )
    lines = tree(ancestors(family, at(3), {}))
    assert [step.attempt.operator for _, step in lines].count("seed") == 1
    assert len(lines) == 6


def test_a_line_of_thousands_needs_no_recursion() -> None:
    family = [made(at(0), "seed", "seed")]
    family += [made(at(g), "tune", f"c{g}", at(g - 1)) for g in range(1, 5000)]
    steps = ancestors(family, at(4999), {})
    assert steps[-1].depth == 4999
    assert len(tree(steps)) == 5000
