from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from archives.candidate import Candidate
from evaluator.evaluator import EvaluationRequest
from evokernel.replay import ReplayEvaluator
from problems.errors import EvaluatorError, ProblemError
from tests.evokernel import landscape as world


def test_only_what_was_recorded_can_be_replayed(tmp_path: Path) -> None:
    config = world.config("search.generations=0")
    with world.new_store(tmp_path / "run", config, 1) as store:
        with pytest.raises(EvaluatorError, match="nothing that could be replayed"):
            ReplayEvaluator(store)
        world.sit(store, config)
        replay = ReplayEvaluator(store)
        recorded = store.evaluations()[0]
        known = store.candidate(recorded.proposed or "")
    problem = world.problem(1)
    request = EvaluationRequest(problem=problem, candidate=known)
    assert asyncio.run(replay.evaluate(request)) == recorded.evaluation
    stranger = Candidate.of(problem.key, "class ModelNew: pass")
    with pytest.raises(EvaluatorError, match="did not ask for it"):
        asyncio.run(replay.evaluate(EvaluationRequest(problem=problem, candidate=stranger)))
    with pytest.raises(ProblemError, match="no operator graph"):
        asyncio.run(replay.graph(world.problem(2)))
