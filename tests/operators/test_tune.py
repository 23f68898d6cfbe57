import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.attempt import Slot
from archives.candidate import Candidate
from archives.configuration import Configuration, Space, read_configuration, read_space
from archives.evaluation import ConfigurationResult, Evaluation, Interval, Rung, Status
from operators.operator import OperatorContext, Parent, Proposal
from operators.relatives import Relative
from operators.tune import TUNE, propose_points
from problems.problem import Problem, Scale

SETTINGS = settings(deadline=None, derandomize=True, max_examples=50)

PROBLEM = Problem(
    level=1, id=19, name="ReLU", family="elementwise", scale=Scale.TINY, source="class Model: ...\n"
)
PROGRAM = """\
TUNE_PARAMS = {"BLOCK": [64, 128, 256, 512], "ONLINE": [False, True]}
CONFIG = {"BLOCK": 128, "ONLINE": False}


class ModelNew: ...
"""
SPACE = read_space(PROGRAM)
START = read_configuration(PROGRAM)

spaces = st.dictionaries(
    st.sampled_from("ABCDEF"),
    st.lists(st.integers(0, 50), min_size=1, max_size=6, unique=True),
    min_size=1,
    max_size=5,
)


def parent(source: str = PROGRAM, tried: Sequence[ConfigurationResult] = ()) -> Parent:
    return Parent(
        slot=Slot(problem=PROBLEM.key, generation=0, island=0, index=0),
        candidate=Candidate.of(PROBLEM.key, source),
        evaluation=Evaluation(
            status=Status.OK,
            rung=Rung.TIME,
            latency_ms=1.0,
            reference_ms=2.0,
            speedup=2.0,
            interval=Interval(low=1.9, high=2.1),
        ),
        tried=tuple(tried),
    )


def tune(
    parent: Parent, seed: int = 0, relatives: Sequence[Relative] = (), **settings: object
) -> Proposal:
    context = OperatorContext(problem=PROBLEM, graph=None, relatives=relatives, settings=settings)
    return asyncio.run(TUNE.propose([parent], context, np.random.default_rng(seed)))


def result(
    configuration: Configuration, latency_ms: float | None, status: Status = Status.OK
) -> ConfigurationResult:
    return ConfigurationResult(configuration=configuration, status=status, latency_ms=latency_ms)


def test_a_batch_is_new_distinct_and_inside_the_space() -> None:
    proposal = tune(parent())
    assert len(proposal.configurations) == 4
    for point in proposal.configurations:
        assert point != START
        assert all(point[name] in SPACE[name] for name in SPACE)
    assert len({tuple(point.items()) for point in proposal.configurations}) == 4
    assert "varying" in proposal.note


def test_the_child_holds_the_first_point_and_is_no_duplicate_of_its_parent() -> None:
    proposal = tune(parent())
    assert proposal.source is not None
    assert read_configuration(proposal.source) == proposal.configurations[0]
    child = Candidate.of(PROBLEM.key, proposal.source)
    assert child.program_id == parent().candidate.program_id
    assert child.id != parent().candidate.id


def test_the_batch_size_is_a_setting() -> None:
    assert len(tune(parent(), configurations=2).configurations) == 2


def test_one_seed_gives_one_proposal() -> None:
    assert tune(parent(), seed=5) == tune(parent(), seed=5)
    assert any(tune(parent(), seed=5) != tune(parent(), seed=seed) for seed in range(6, 10))


@pytest.mark.parametrize(
    "source",
    [
        "class ModelNew: ...\n",
        'TUNE_PARAMS = {"A": [1, 2]}\n',
        'TUNE_PARAMS = {"A": [1, 2]}\nCONFIG = {"A": 3}\n',
        "not python(",
    ],
)
def test_a_program_without_a_space_gives_a_reason(source: str) -> None:
    assert tune(parent(source)).reason == "no_space"


def test_an_exhausted_space_gives_a_reason() -> None:
    everything = [
        result({"BLOCK": block, "ONLINE": online}, 1.0)
        for block in SPACE["BLOCK"]
        for online in SPACE["ONLINE"]
    ]
    assert tune(parent(tried=everything)).reason == "space_exhausted"
    last = tune(parent(tried=everything[:-1]))
    assert last.configurations == ({"BLOCK": 512, "ONLINE": True},)


@SETTINGS
@given(space=spaces, seed=st.integers(0, 2**32), data=st.data())
def test_points_tried_before_never_come_again(space: Space, seed: int, data: st.DataObject) -> None:
    def any_point() -> Configuration:
        return {name: data.draw(st.sampled_from(space[name])) for name in space}

    tried = [
        result(any_point(), 1.0 + index, data.draw(st.sampled_from([Status.OK, Status.CRASHED])))
        for index in range(data.draw(st.integers(0, 12)))
    ]
    start = any_point()
    points = propose_points(space, tried, start, 4, np.random.default_rng(seed))
    seen = {tuple(sorted(r.configuration.items())) for r in tried}
    found = [tuple(sorted(point.items())) for point in points]
    assert len(set(found)) == len(found) <= 4
    assert not seen & set(found)
    total = int(np.prod([len(choices) for choices in space.values()]))
    assert len(found) == min(4, total - len(seen))


def test_a_choice_that_only_ever_failed_is_left_for_last() -> None:
    space = {"A": list(range(8)), "FAULTY": [0, 1]}
    tried = [result({"A": a, "FAULTY": 1}, None, Status.WRONG_VALUE) for a in range(3)]
    tried.append(result({"A": 0, "FAULTY": 0}, 1.0))
    start = {"A": 0, "FAULTY": 0}
    first = propose_points(space, tried, start, 7, np.random.default_rng(1))
    assert [point["FAULTY"] for point in first] == [0] * 7
    more = propose_points(
        space, [*tried, *(result(p, 1.0) for p in first)], start, 5, np.random.default_rng(1)
    )
    assert [point["FAULTY"] for point in more] == [1] * 5


def test_tuning_finds_a_good_point_sooner_than_chance() -> None:
    """On a smooth landscape of 4,096 points, 60 tried."""
    space = {name: list(range(8)) for name in "ABCD"}

    def latency_ms(point: Configuration) -> float:
        return 1.0 + sum((float(value) - 5) ** 2 for value in point.values())

    def search(seed: int, *, guided: bool) -> float:
        rng = np.random.default_rng(seed)
        start: Configuration = dict.fromkeys(space, 0)
        tried = [result(start, latency_ms(start))]
        for _ in range(15):
            if guided:
                points: Sequence[Configuration] = propose_points(space, tried, start, 4, rng)
            else:
                points = [{n: int(rng.integers(8)) for n in space} for _ in range(4)]
            tried += [result(point, latency_ms(point)) for point in points]
            best = min(tried, key=lambda r: r.latency_ms or np.inf)
            start = best.configuration
        return min(r.latency_ms or np.inf for r in tried)

    guided = np.mean([search(seed, guided=True) for seed in range(20)])
    blind = np.mean([search(seed, guided=False) for seed in range(20)])
    assert guided < 0.5 * blind


def test_learning_finds_a_good_point_sooner_where_parameters_interact() -> None:
    """On a ridge across 2,592 points, of which some fail; 48 are tried."""
    space: Space = {
        "TILE": [16, 32, 64, 128, 256, 512],
        "WARPS": [1, 2, 4, 8],
        "DEPTH": [1, 2, 3, 4, 5, 6],
        "MODE": ["a", "b", "c"],
        "PLACE": ["x", "y"],
        "WAVES": [0, 1, 2],
    }

    def outcome(point: Configuration) -> ConfigurationResult:
        tile, warps, depth = int(point["TILE"]), int(point["WARPS"]), int(point["DEPTH"])
        if tile * depth > 1024:
            return result(point, None, Status.OUT_OF_MEMORY)
        ridge = abs(np.log2(tile / warps) - 5) + abs(depth - (2 if point["MODE"] == "b" else 5)) / 2
        extra = 2 * (point["MODE"] == "a") + (point["PLACE"] == "x") + 0.3 * int(point["WAVES"])
        return result(point, float(1 + ridge + extra))

    def search(seed: int, *, learns: bool) -> float:
        rng = np.random.default_rng(seed)
        drawn = [{n: v[int(rng.integers(len(v)))] for n, v in space.items()} for _ in range(8)]
        tried = [outcome(point) for point in drawn]
        while len(tried) < 48:
            timed = [one for one in tried if one.latency_ms is not None]
            best = min(timed, key=lambda one: one.latency_ms or np.inf).configuration
            points = propose_points(space, tried, best, 4, rng, learns=learns)
            tried += [outcome(point) for point in points]
        return min(one.latency_ms or np.inf for one in tried)

    learned = np.mean([search(seed, learns=True) for seed in range(24)])
    plain = np.mean([search(seed, learns=False) for seed in range(24)])
    assert learned - 1 < 0.7 * (plain - 1)


RELATIVES = [
    Relative(problem="1/20 LeakyReLU", configuration={"BLOCK": 512, "ONLINE": True}),
    Relative(problem="1/21 Sigmoid", configuration={"BLOCK": 256, "ONLINE": True}),
    Relative(problem="1/22 Tanh", configuration={"BLOCK": 64, "ONLINE": True}),
    Relative(problem="1/88 Gelu", configuration={"BLOCK": 64, "OTHER": 1}),
]


def test_what_was_best_for_relatives_comes_first_and_is_at_most_half_of_a_batch() -> None:
    proposal = tune(parent(), relatives=RELATIVES)
    assert proposal.configurations[:2] == tuple(one.configuration for one in RELATIVES[:2])
    assert len(proposal.configurations) == 4
    single = {
        tune(parent(), seed, RELATIVES, configurations=1).configurations[0]["BLOCK"]
        for seed in range(8)
    }
    assert 512 in single
    assert len(single) > 1, "the only point of a batch is not always that of a relative"


def test_what_was_best_for_relatives_is_not_tried_twice() -> None:
    tried = [result(RELATIVES[0].configuration, 3.0), result(RELATIVES[1].configuration, 2.0)]
    proposal = tune(parent(tried=tried), relatives=RELATIVES)
    assert proposal.configurations[0] == RELATIVES[2].configuration


def test_transfer_and_learning_can_be_turned_off() -> None:
    alone = tune(parent(), seed=3)
    assert tune(parent(), seed=3, relatives=RELATIVES, transfer=0) == alone
    known = [
        result({"BLOCK": block, "ONLINE": online}, float(block))
        for block in (64, 128, 256, 512)
        for online in (False, True)
    ]
    large = PROGRAM.replace("[64, 128, 256, 512]", str([64, 128, 256, 512, *range(1000, 1400)]))
    plain = [tune(parent(large, known), seed, surrogate=0).configurations for seed in range(5)]
    learned = [tune(parent(large, known), seed).configurations for seed in range(5)]
    assert plain != learned
