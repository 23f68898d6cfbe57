"""Inductor's code in a run: asked for once, kept, and found again by whoever goes on or replays."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from archives.attempt import AttemptState
from evokernel.engine import Engine
from evokernel.lifts import TRIES, lifted_code, read_lifted
from evokernel.replay import ReplayEvaluator
from operators.registry import load_operator
from problems.errors import EvaluatorError, StoreError
from problems.lifted import OPTION_SETS, Argument, Lifted, Output
from problems.problem import Problem
from tests.evokernel import landscape as world

_CODE = """\
class Runner:
    def call(self, args):
        arg0_1, = args
        args.clear()
        buf0 = torch.ops.aten.relu.default(arg0_1)
        return (buf0, )
"""
_LIFTED = Lifted(
    options="default",
    code=_CODE,
    arguments=(Argument(input=0),),
    outputs=(Output(result=0),),
    kernels={},
)


class _Compiling(world.Landscape):
    """A landscape whose device has a compiler."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.lifts = 0
        self._failures = failures

    async def lift(
        self, problem: Problem, option_sets: Sequence[str] = tuple(OPTION_SETS)
    ) -> tuple[Lifted, ...]:
        self.lifts += 1
        if self.lifts <= self._failures:
            raise EvaluatorError("the compiler's process died")
        return (_LIFTED,)


def _sit(folder: Path, evaluator: _Compiling, generations: int = 1) -> set[str]:
    """Run, and return the ids of candidates that come from the compiler."""
    config = world.config(
        'operators.use=["compiler", "tune"]',
        f"search.generations={generations}",
        "evaluation.verify=false",
        "operators.settings.compiler.on_cpu=1",
    )
    operators = {**world.operators(), "compiler": load_operator("compiler")}
    chosen = {name: operators[name] for name in ("seed", "compiler")}
    with world.new_store(folder, config, 1) as store:
        engine = Engine(store=store, config=config, evaluator=evaluator, operators=chosen)
        asyncio.run(engine.run())
        attempts = [a for a in store.attempts() if a.operator == "compiler"]
        assert {a.state for a in attempts} <= {AttemptState.ARCHIVED, AttemptState.FAILED}
        found = {a.candidate for a in attempts if a.candidate is not None}
        replay = ReplayEvaluator(store)
    assert asyncio.run(replay.lift(world.problem(1))) == (_LIFTED,)
    return found


def test_a_run_asks_once_and_keeps_the_answer_for_a_replay(tmp_path: Path) -> None:
    evaluator = _Compiling()
    found = _sit(tmp_path / "run", evaluator, generations=2)
    assert len(found) == 1
    assert evaluator.lifts == 1
    assert read_lifted(tmp_path / "run", world.problem(1).key) == (_LIFTED,)


def test_a_failed_evaluator_is_asked_again(tmp_path: Path) -> None:
    evaluator = _Compiling(failures=1)
    assert _sit(tmp_path / "run", evaluator, generations=1)
    assert evaluator.lifts == 2


def test_an_evaluator_that_keeps_failing_is_left_alone_and_that_is_kept(tmp_path: Path) -> None:
    evaluator = _Compiling(failures=TRIES)
    problem = world.problem(1)
    assert asyncio.run(lifted_code(tmp_path, evaluator, problem)) == ()
    assert evaluator.lifts == TRIES
    # A run that goes on, and one that is replayed, breed without it too.
    assert asyncio.run(lifted_code(tmp_path, evaluator, problem)) == ()
    assert evaluator.lifts == TRIES


@pytest.mark.parametrize(
    ("on_cpu", "names"),
    [(1, ("seed",)), (0, ("seed", "compiler"))],
    ids=["no operator wants it", "not on a CPU unless told"],
)
def test_nobody_asks_where_nobody_wants_the_code(
    tmp_path: Path, on_cpu: int, names: Sequence[str]
) -> None:
    config = world.config("search.generations=0", f"operators.settings.compiler.on_cpu={on_cpu}")
    evaluator = _Compiling()
    operators = {name: load_operator(name) for name in names}
    with world.new_store(tmp_path / "run", config, 1) as store:
        engine = Engine(store=store, config=config, evaluator=evaluator, operators=operators)
        asyncio.run(engine.run())
    assert evaluator.lifts == 0


def test_a_damaged_file_says_what_to_do(tmp_path: Path) -> None:
    problem = world.problem(1)
    assert asyncio.run(lifted_code(tmp_path, _Compiling(), problem)) == (_LIFTED,)
    path = tmp_path / "lifted" / f"{problem.key}.json.gz"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(StoreError, match=r"is damaged .* remove it"):
        read_lifted(tmp_path, problem.key)
    assert [one.name for one in path.parent.iterdir()] == [path.name]
