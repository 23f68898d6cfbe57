import math
from itertools import product

import numpy as np

from archives.configuration import Configuration
from archives.evaluation import ConfigurationResult, Status
from operators.genetics import Lattice
from operators.surrogate import LEAST_POINTS, Surrogate

SPACE: dict[str, list[bool | int | float | str]] = {
    "BLOCK": [256, 32, 64, 128],
    "WARPS": [1, 2, 4, 8],
    "MODE": ["one", "two", "three"],
    "STAGES": [1, 2, 3],
}
LATTICE = Lattice.of(SPACE)
POINTS = list(product(*map(range, LATTICE.sizes)))


def latency_ms(point: tuple[int, ...]) -> float:
    """Large tiles are good with many warps alone, and mode "two" is the best one."""
    configuration = LATTICE.decode(point)
    per_warp = int(configuration["BLOCK"]) / int(configuration["WARPS"])
    depth = abs(int(configuration["STAGES"]) - 2) / 4
    return 1 + abs(math.log2(per_warp / 32)) + (configuration["MODE"] != "two") + depth


def result(point: tuple[int, ...], *, fails: bool = False) -> ConfigurationResult:
    configuration: Configuration = LATTICE.decode(point)
    if fails:
        return ConfigurationResult(configuration=configuration, status=Status.CRASHED)
    return ConfigurationResult(
        configuration=configuration, status=Status.OK, latency_ms=latency_ms(point)
    )


def tried(count: int, seed: int) -> list[ConfigurationResult]:
    drawn = np.random.default_rng(seed).permutation(len(POINTS))[:count]
    return [result(POINTS[index]) for index in drawn.tolist()]


def scores(results: list[ConfigurationResult], seed: int = 0) -> np.ndarray:
    surrogate = Surrogate.fit(LATTICE, results, np.random.default_rng(seed))
    assert surrogate is not None
    means = surrogate.score(np.array(POINTS))
    return means


def test_what_it_puts_first_is_far_better_than_chance() -> None:
    limit = sorted(map(latency_ms, POINTS))[len(POINTS) // 10]
    found = []
    for seed in range(10):
        known = tried(40, seed)
        seen = {LATTICE.encode(one.configuration) for one in known}
        order = np.argsort(-scores(known), kind="stable").tolist()
        first = [POINTS[index] for index in order if POINTS[index] not in seen][:8]
        found.append(sum(latency_ms(point) <= limit for point in first) / len(first))
    share = sum(latency_ms(point) <= limit for point in POINTS) / len(POINTS)
    assert np.mean(found) > 2 * share


def test_a_choice_that_fails_is_put_last() -> None:
    known = [
        result(point, fails=LATTICE.decode(point)["MODE"] == "two")
        for point in POINTS[:: len(POINTS) // 48]
    ]
    means = scores(known)
    fails = np.array([LATTICE.decode(point)["MODE"] == "two" for point in POINTS])
    assert means[fails].max() < np.sort(means[~fails])[-5]
    assert means[fails].mean() < means[~fails].mean() / 2


def test_numbers_are_known_by_their_order_not_by_their_place_in_the_list() -> None:
    """The least block, declared second, is the best; its neighbour was never tried."""
    space: dict[str, list[bool | int | float | str]] = {"BLOCK": [512, 32, 256, 64, 128]}
    lattice = Lattice.of({**space, "OTHER": list(range(8))})
    known = [
        ConfigurationResult(
            configuration={"BLOCK": block, "OTHER": other},
            status=Status.OK,
            latency_ms=float(block),
        )
        for block in (32, 128, 256, 512)
        for other in range(4)
    ]
    surrogate = Surrogate.fit(lattice, known, np.random.default_rng(0))
    assert surrogate is not None
    near, far = np.array([[3, 6]]), np.array([[0, 6]])
    assert surrogate.score(near) > surrogate.score(far)


def test_one_seed_gives_one_surrogate_and_votes_are_shares() -> None:
    known = tried(30, 1)
    assert (scores(known, 3) == scores(known, 3)).all()
    surrogate = Surrogate.fit(LATTICE, known, np.random.default_rng(0))
    assert surrogate is not None
    means = surrogate.score(np.array(POINTS))
    assert ((means >= 0) & (means <= 1)).all()
    assert means.max() > means.min()


def test_too_little_teaches_nothing() -> None:
    rng = np.random.default_rng(0)
    assert Surrogate.fit(LATTICE, tried(LEAST_POINTS - 1, 0), rng) is None
    assert Surrogate.fit(LATTICE, [result(point, fails=True) for point in POINTS], rng) is None
    twice = [*tried(LEAST_POINTS - 1, 0)] * 2
    assert Surrogate.fit(LATTICE, twice, rng) is None
