"""Founding: a problem begins with each program that there is for it, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from archives.attempt import Attempt
from archives.export import canonical_export
from archives.store import Store
from evaluator.evaluator import EvaluationRequest
from evokernel.config import RunConfig
from evokernel.engine import Engine
from operators.operator import Operator
from operators.registry import OPERATORS
from operators.sketch import SketchOperator
from operators.sketches.sketch import Sketch
from problems.graph import OperatorGraph
from problems.lifted import Argument, Lifted, Output
from problems.problem import Problem
from tests.evokernel import landscape as world

NUM_SKETCHES = 5
LIFTED = Lifted(
    options="default",
    code=(
        "class Runner:\n    def call(self, args):\n        arg0_1, = args\n        args.clear()\n"
        "        buf0 = torch.ops.aten.relu.default(arg0_1)\n        return (buf0, )\n"
    ),
    arguments=(Argument(input=0),),
    outputs=(Output(result=0),),
    kernels={},
)


def _writes(number: int) -> Callable[[Problem, OperatorGraph], str | None]:
    return lambda problem, graph: f"NUMBER = {number}\n" + world.PROGRAM


SKETCHES = tuple(
    Sketch(name=f"s{number}", device="cpu", write=_writes(number)) for number in range(NUM_SKETCHES)
)


class Compiling(world.Landscape):
    async def lift(self, problem: Problem, option_sets: Sequence[str] = ()) -> tuple[Lifted, ...]:
        self.option_sets = tuple(option_sets)
        return (LIFTED,)


def _operators() -> dict[str, Operator]:
    names = ("seed", "sketch", "compiler", "tune", "splice")
    return {name: OPERATORS[name] for name in names} | {"sketch": SketchOperator(sketches=SKETCHES)}


def _config(*settings: str) -> RunConfig:
    return world.config(
        "search.founding=true",
        "search.initial=0",
        "search.islands=2",
        "search.proposals=1",
        "search.generations=3",
        "operators.settings.sketch.repeats=0",
        "operators.settings.compiler.repeats=0",
        "operators.settings.compiler.option_sets=2",
        "operators.settings.compiler.on_cpu=1",
        *settings,
    )


def _sit(folder: Path, config: RunConfig, evaluator: world.Landscape) -> None:
    store = Store.open(folder, write=True) if folder.exists() else world.new_store(folder, config)
    with store:
        engine = Engine(store=store, config=config, evaluator=evaluator, operators=_operators())
        asyncio.run(engine.run())


def _attempts(folder: Path) -> list[Attempt]:
    with Store.open(folder) as store:
        return store.attempts(world.problem(1).key)


def test_every_sketch_and_the_lifted_program_come_once_and_then_they_are_varied(
    tmp_path: Path,
) -> None:
    evaluator = Compiling()
    _sit(tmp_path / "run", _config(), evaluator)
    attempts = _attempts(tmp_path / "run")
    first = [one for one in attempts if one.slot.generation == 0 and one.operator != "migrate"]
    assert Counter(one.operator for one in first) == {
        "seed": 1,
        "sketch": NUM_SKETCHES,
        "compiler": 1,
    }
    notes = sorted(one.note for one in first if one.operator == "sketch")
    assert notes == [f"sketch {sketch.name}" for sketch in SKETCHES]
    founders = [one for one in first if one.operator != "seed"]
    assert Counter(one.slot.island for one in founders) == {0: 3, 1: 3}
    assert evaluator.option_sets == ("default", "narrow_vectors")
    later = [one for one in attempts if one.slot.generation > 0 and one.candidate is not None]
    assert {one.operator for one in later} <= {"tune", "splice", "migrate"}
    assert sum(one.operator != "migrate" for one in later) == 2 * 3


def test_an_interrupted_founding_goes_on_to_the_same_end(tmp_path: Path) -> None:
    _sit(tmp_path / "run", _config(), Compiling())
    killed = Compiling()

    async def stops(request: EvaluationRequest) -> object:
        if len(killed.requests) == 4:
            raise asyncio.CancelledError
        return await Compiling.evaluate(killed, request)

    killed.evaluate = stops  # type: ignore[assignment, method-assign]
    with pytest.raises(asyncio.CancelledError):
        _sit(tmp_path / "again", _config(), killed)
    _sit(tmp_path / "again", _config(), Compiling())
    with Store.open(tmp_path / "run") as one, Store.open(tmp_path / "again") as other:
        assert canonical_export(one) == canonical_export(other)


def test_without_founding_programs_are_drawn(tmp_path: Path) -> None:
    config = _config("search.founding=false", "search.initial=1", "search.generations=0")
    _sit(tmp_path / "run", config, Compiling())
    assert len([one for one in _attempts(tmp_path / "run") if one.operator != "migrate"]) == 3
