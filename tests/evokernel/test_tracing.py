"""The operator graph in a run: an evaluator that fails is asked again, and then left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from evokernel.lifts import TRIES
from problems.errors import EvaluatorError, ProblemError
from problems.graph import OperatorGraph
from problems.problem import Problem
from tests.evokernel import landscape as world


class Tracing(world.Landscape):
    """A landscape whose first traces fail."""

    def __init__(self, failures: int, error: Exception) -> None:
        super().__init__()
        self.failures = failures
        self.error = error
        self.traces = 0

    async def graph(self, problem: Problem) -> OperatorGraph:
        self.traces += 1
        if self.traces <= self.failures:
            raise self.error
        return await super().graph(problem)


@pytest.mark.parametrize(
    ("failures", "error", "traces", "has_graph"),
    [
        (TRIES - 1, EvaluatorError("a worker was lost"), TRIES, True),
        (TRIES, EvaluatorError("a worker was lost"), TRIES, False),
        (1, ProblemError("it cannot be traced"), 1, False),
    ],
)
def test_who_fails_is_asked_again_but_not_for_ever(
    failures: int, error: Exception, traces: int, has_graph: bool, tmp_path: Path
) -> None:
    config = world.config("evaluation.verify=false")
    with world.new_store(tmp_path / "run", config, 1) as store:
        evaluator = Tracing(failures, error)
        world.sit(store, config, evaluator)
        assert evaluator.traces == traces
        assert (store.graph(world.problem(1).key) is not None) is has_graph


def test_a_resumed_run_goes_on_without_the_graph_that_could_not_be_had(tmp_path: Path) -> None:
    with world.new_store(tmp_path / "run", world.config(), 1) as store:
        world.sit(store, world.config(), Tracing(TRIES, EvaluatorError("a worker was lost")))
        later = Tracing(0, EvaluatorError(""))
        world.sit(store, world.config("search.generations=3"), later)
        assert later.requests
        assert later.traces == 0
