"""What one problem's search learns from others, whoever is faster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from archives.evaluation import Evaluation
from archives.export import canonical_export
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from evokernel.config import RunConfig, resolve
from evokernel.engine import Engine
from evokernel.heirlooms import HEIRLOOMS_FILE, Heirloom, read_heirlooms
from evokernel.kin import LAG, Kin, visible_until
from evokernel.launch import create_run, make_plan, sit
from evokernel.likeness import Form, distance
from evokernel.search import ProblemSearch
from evokernel.turns import Turns
from operators.operator import OperatorContext, Parent, Proposal
from operators.tune import Tune
from problems.errors import StoreError
from problems.graph import Node, OperatorGraph, TensorSpec
from problems.problem import Problem
from tests.evokernel import landscape as world

SHAPE = ("search.generations=4", "search.together=2", "search.islands=1", "search.proposals=2")


class Watcher(Tune):
    """Tunes, and notes what it was told of relatives."""

    def __init__(self) -> None:
        self.seen: dict[tuple[int, int], set[str]] = {}

    async def propose(
        self, parents: Sequence[Parent], context: OperatorContext, rng: np.random.Generator
    ) -> Proposal:
        place = (context.problem.id, context.generation)
        self.seen[place] = {relative.problem for relative in context.relatives}
        return await super().propose(parents, context, rng)


@dataclass
class Uneven(world.Landscape):
    """An evaluator that keeps one problem waiting."""

    slow: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if request.problem.id == self.slow:
            await asyncio.sleep(0.01)
        return await super().evaluate(request)


def run(store: Store, config: RunConfig, slow: int = 0, watcher: Watcher | None = None) -> None:
    known = world.operators()
    operators = {"seed": known["seed"], "sketch": known["sketch"], "tune": watcher or Tune()}
    engine = Engine(store=store, config=config, evaluator=Uneven(slow=slow), operators=operators)
    asyncio.run(engine.run())


def test_it_does_not_matter_which_problem_is_slow(tmp_path: Path) -> None:
    config = world.config(*SHAPE)
    exports = set()
    for slow in range(5):
        with world.new_store(tmp_path / str(slow), config, 4) as store:
            run(store, config, slow)
            exports.add(canonical_export(store))
    assert len(exports) == 1


def test_problems_see_those_of_earlier_blocks_and_what_is_old_enough(tmp_path: Path) -> None:
    config = world.config(*SHAPE, "search.proposals=8", "operators.floor=0.5")
    watcher = Watcher()
    with world.new_store(tmp_path / "run", config, 4) as store:
        run(store, config, watcher=watcher)
    names = {number: world.problem(number).label for number in range(1, 5)}
    assert watcher.seen[1, 1] == set(), "nothing is old enough"
    assert watcher.seen[1, 3] == {names[2]}
    assert watcher.seen[3, 1] == {names[1], names[2]}, "the second block sees the first one"
    assert watcher.seen[4, 3] == {names[1], names[2], names[3]}


@pytest.mark.parametrize("off", ["operators.settings.tune.transfer=0", 'search.mode="best-of-n"'])
def test_transfer_can_be_turned_off(tmp_path: Path, off: str) -> None:
    config = world.config(*SHAPE, off, "search.proposals=8", "operators.floor=0.5")
    watcher = Watcher()
    with world.new_store(tmp_path / "run", config, 4) as store:
        run(store, config, watcher=watcher)
    assert not any(watcher.seen.values())


def test_what_is_visible_does_not_depend_on_how_many_generations_are_planned() -> None:
    assert visible_until(index=3, generation=0, other=1, together=2) == 0
    assert visible_until(index=3, generation=5, other=1, together=2) == 5
    assert visible_until(index=3, generation=5, other=2, together=2) == 5 - LAG
    assert visible_until(index=3, generation=5, other=4, together=2) < 0
    assert visible_until(index=3, generation=5, other=99, together=0) == 5 - LAG


def graph(op: str, *shapes: tuple[int, ...]) -> OperatorGraph:
    specs = tuple(
        TensorSpec(shape=shape, stride=(0,) * len(shape), dtype="float32", storage=number)
        for number, shape in enumerate(shapes)
    )
    node = Node(op=op, inputs=(), arguments=(), keywords={}, outputs=())
    return OperatorGraph(inputs=specs, parameters={}, buffers={}, nodes=(node,), outputs=())


def test_near_is_what_does_the_same_at_like_sizes() -> None:
    here = Form.of(graph("mm", (1024, 512), (512, 2048)))
    same = Form.of(graph("mm", (2048, 512), (512, 2048)))
    larger = Form.of(graph("mm", (4096, 4096), (4096, 4096)))
    other = Form.of(graph("bmm", (1024, 512), (512, 2048)))
    vector = Form.of(graph("mm", (1024, 512)))
    ranked = sorted([other, vector, larger, same, here, None], key=lambda f: distance(here, f))
    assert ranked[:2] == [here, same]
    assert ranked[-1] is None
    assert distance(here, same) < distance(here, larger) < distance(here, vector)
    assert distance(here, same) < distance(here, other)
    assert distance(here, larger) == distance(larger, here)


def search_of(number: int, index: int, config: RunConfig) -> ProblemSearch:
    problem: Problem = world.problem(number)
    return ProblemSearch.begin(problem, index, config)


def test_a_turn_waits_for_those_that_it_depends_on_and_others_pass_by() -> None:
    config = world.config()
    first, second, third = (search_of(n + 1, n, config) for n in range(3))
    blocked = {third.index}
    turns = Turns(
        [first, second, third], 0, lambda search, generation, _: search.index not in blocked
    )

    async def scenario() -> list[int]:
        taken = [await turns.take() for _ in range(2)]
        waiting = asyncio.ensure_future(turns.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert taken[0] is not None
        assert taken[1] is not None
        turns.give_back(taken[0], again=True)
        again = await waiting
        assert again is not None
        assert (again.index, again.generation) == (0, 1), "the third one is passed by"
        blocked.clear()
        turns.give_back(taken[1], again=False)
        last = await turns.take()
        assert last is not None
        turns.give_back(last, again=False)
        turns.give_back(again, again=False)
        assert await turns.take() is None
        return [turn.index for turn in (*taken, again, last) if turn]

    assert asyncio.run(scenario()) == [0, 1, 0, 2]


def small(scale: str, *settings: str, **flags: object) -> RunConfig:
    use = 'operators.use=["tests.evokernel.landscape:START", "tune"]'
    return resolve(
        settings=(*world.SHAPE, "search.islands=1", "search.proposals=6", use, *settings),
        flags={
            "problems.level": 1,
            "problems.ids": "19",
            "problems.scale": scale,
            **{f"problems.{name}": value for name, value in flags.items()},
        },
    )


def test_a_run_at_other_sizes_hands_down_its_best_configurations(tmp_path: Path) -> None:
    first = make_plan(small("tiny"))
    with create_run(first, tmp_path / "first") as store:
        sit(store, first, evaluator=world.Landscape())
    second = make_plan(small("small", "rng_seed=7", from_run=str(tmp_path / "first")))
    best = second.heirlooms[0].configurations[0]
    assert second.seeds == {}
    key = second.problems[0].key
    with create_run(second, tmp_path / "second") as store:
        (tmp_path / "first").rename(tmp_path / "gone")
        sit(store, second, evaluator=world.Landscape())
        tuned = [a for a in store.attempts(key, 1) if a.operator == "tune"]
        assert tuned
        assert best in [point for a in tuned for point in store.configurations(a.slot)]


def test_a_damaged_file_of_heirlooms_is_an_error(tmp_path: Path) -> None:
    assert read_heirlooms(tmp_path) == ()
    (tmp_path / HEIRLOOMS_FILE).write_text('[{"problem": 3}]')
    with pytest.raises(StoreError, match=r"damaged.*remove it"):
        read_heirlooms(tmp_path)


def test_bests_of_all_relatives_come_before_any_second_best() -> None:
    def heirloom(label: str, size: int, family: str = "landscape") -> Heirloom:
        form = Form(operations=("mm",), sizes=(float(size),))
        points = ({"A": size}, {"A": -size}, {"B": size})
        return Heirloom(problem=label, family=family, form=form, configurations=points)

    search = search_of(1, 0, world.config())
    search.graph = graph("mm", (1 << 3,))
    heirlooms = [heirloom("far", 9), heirloom("near", 4), heirloom("stranger", 3, "other")]
    kin = Kin(families={}, together=0, graph_of=lambda key: None, heirlooms=heirlooms)
    told = [one for one in kin.relatives(search, 0) if "A" in one.configuration]
    assert [one.configuration["A"] for one in told] == [4, 9, -4, -9]
    assert [one.problem for one in told] == ["near", "far", "near", "far"]
