from archives.configuration import Configuration
from operators.genetics import Lattice
from operators.relatives import Relative, points_of_relatives

LATTICE = Lattice.of({"BLOCK": [64, 256, 1024], "MODE": ["one", "two"], "PROGRAMS": [0, 132]})
START: Configuration = {"BLOCK": 64, "MODE": "two", "PROGRAMS": 0}


def points(*configurations: Configuration, count: int = 9) -> list[Configuration]:
    relatives = [Relative(problem="1/1 X", configuration=one) for one in configurations]
    found = points_of_relatives(LATTICE, relatives, START, count)
    return [LATTICE.decode(point) for point in found]


def test_a_point_of_the_space_is_taken_over_as_it_is() -> None:
    best: Configuration = {"BLOCK": 256, "MODE": "one", "PROGRAMS": 132}
    assert points(best) == [best]


def test_a_number_becomes_the_nearest_one_and_anything_else_that_of_the_start() -> None:
    found = points({"BLOCK": 700, "MODE": "three", "PROGRAMS": 78})
    assert found == [{"BLOCK": 1024, "MODE": "two", "PROGRAMS": 132}]
    assert points({"BLOCK": 128.5, "MODE": "one", "PROGRAMS": False}) == [
        {"BLOCK": 64, "MODE": "one", "PROGRAMS": 0}
    ], "a number of another type is no number of this space"


def test_other_parameters_mean_another_program() -> None:
    assert points({"BLOCK": 64, "MODE": "one"}) == []
    assert points({**START, "MORE": 1}) == []


def test_the_nearest_come_first_and_each_point_once() -> None:
    one, two = {**START, "BLOCK": 256}, {**START, "BLOCK": 1024}
    assert points(one, {**one, "BLOCK": 300}, two) == [one, two]
    assert points(one, two, count=1) == [one]
