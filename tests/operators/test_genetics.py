import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.configuration import Configuration
from archives.evaluation import ConfigurationResult, Status
from operators.genetics import (
    Individual,
    Lattice,
    cx_uniform,
    make_toolbox,
    mut_differential,
    mut_step,
    mut_uniform_int,
    population,
)

SETTINGS = settings(deadline=None, derandomize=True, max_examples=50)

SPACE: dict[str, list[bool | int | float | str]] = {
    "BLOCK": [64, 128, 256],
    "ONLINE": [False, True],
    "MODE": ["one", "two"],
}
POINT: Configuration = {"BLOCK": 64, "ONLINE": False, "MODE": "one"}

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=8)


def ok(configuration: Configuration, latency_ms: float) -> ConfigurationResult:
    return ConfigurationResult(configuration=configuration, status=Status.OK, latency_ms=latency_ms)


def test_every_number_is_a_point_and_every_point_comes_back() -> None:
    lattice = Lattice.of(SPACE)
    points = [lattice.point(number) for number in range(lattice.num_points)]
    assert len(set(points)) == lattice.num_points == 12
    assert all(lattice.encode(lattice.decode(point)) == point for point in points)


def test_values_of_another_type_lie_outside() -> None:
    lattice = Lattice.of(SPACE)
    assert lattice.encode({**POINT, "BLOCK": 64}) == (0, 0, 0)
    assert lattice.encode({**POINT, "ONLINE": 0}) is None
    assert lattice.encode({**POINT, "BLOCK": 64.0}) is None
    assert lattice.encode({**POINT, "EXTRA": 1}) is None
    assert lattice.encode({"BLOCK": 64}) is None


def test_repeated_choices_count_once() -> None:
    assert Lattice.of({"N": [1, 1, True, 1.0, 2]}).choices == ((1, True, 1.0, 2),)


@SETTINGS
@given(sizes=sizes, seed=st.integers(0, 2**32))
def test_variation_stays_inside_the_space(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)

    def anywhere() -> Individual:
        return Individual([int(rng.integers(size)) for size in sizes])

    for _ in range(5):
        (stepped,) = mut_step(anywhere(), sizes, rng)
        (mutated,) = mut_uniform_int(anywhere(), sizes, rng)
        (evolved,) = mut_differential(anywhere(), [anywhere() for _ in range(3)], sizes, rng)
        crossed = cx_uniform(anywhere(), anywhere(), rng)
        for point in (stepped, mutated, evolved, *crossed):
            assert all(0 <= index < size for index, size in zip(point, sizes, strict=True))


@SETTINGS
@given(sizes=st.lists(st.integers(2, 9), min_size=1, max_size=8), seed=st.integers(0, 2**32))
def test_a_step_always_moves_by_one(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = [int(rng.integers(size)) for size in sizes]
    (after,) = mut_step(Individual(before), sizes, rng)
    moves = [abs(a - b) for a, b in zip(before, after, strict=True)]
    assert set(moves) <= {0, 1}
    assert 1 <= sum(moves) <= 2


def test_the_population_holds_timed_points_with_their_best_time() -> None:
    lattice = Lattice.of(SPACE)
    tried = [
        ok(POINT, 2.0),
        ok(POINT, 1.5),
        ok({**POINT, "BLOCK": 256}, 1.0),
        ConfigurationResult(configuration={**POINT, "ONLINE": True}, status=Status.CRASHED),
        ok({"OTHER": 1}, 0.1),
    ]
    individuals = population(lattice, tried)
    toolbox = make_toolbox(lattice, np.random.default_rng(0))
    assert [list(best) for best in toolbox.select(individuals, 2)] == [[2, 0, 0], [0, 0, 0]]
    assert sorted(individual.fitness.values[0] for individual in individuals) == [1.0, 1.5]
