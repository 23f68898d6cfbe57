import numpy as np

from operators.genetics import Lattice
from operators.variation import nearby, unseen_points


def test_neighbours_lie_in_all_directions() -> None:
    """What two parameters must change together for is one step away."""
    lattice = Lattice.of({"A": [0, 1, 2], "B": [0, 1, 2], "C": ["x"]})
    found = list(nearby(lattice, (1, 1, 0)))
    assert sorted(found) == [(a, b, 0) for a in range(3) for b in range(3) if (a, b) != (1, 1)]


def test_any_other_choice_of_one_parameter_is_near() -> None:
    lattice = Lattice.of({"A": ["v", "w", "x", "y", "z"], "B": [0, 1, 2, 3]})
    found = set(nearby(lattice, (0, 0)))
    assert {(a, 0) for a in range(1, 5)} | {(0, b) for b in range(1, 4)} <= found
    assert (1, 1) in found
    assert (2, 2) not in found


def test_of_a_large_space_some_points_are_drawn() -> None:
    lattice = Lattice.of({name: list(range(8)) for name in "ABCDE"})
    drawn = unseen_points(lattice, set(), 50, np.random.default_rng(0))
    assert 40 < len(drawn) <= 50
    assert not set(unseen_points(lattice, set(drawn), 50, np.random.default_rng(0)))
