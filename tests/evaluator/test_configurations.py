"""Candidates with a declared space, and those whose weights have names of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives.candidate import Candidate
from archives.evaluation import Reuse, Rung, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.referee import Referee
from tests.evaluator.referee_cases import LINEAR, SOFTMAX, judge, new_referee, source_of


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    one = new_referee()
    one.start()
    yield one
    one.close()


@pytest.mark.parametrize("name", ["torch_expression", "cpp_softmax"])
def test_an_honest_kernel_passes_and_its_share_is_known(name: str, referee: Referee) -> None:
    verdict = judge(referee, SOFTMAX, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict
    assert verdict.rung is Rung.TIME
    own = name == "cpp_softmax"
    assert verdict.facts.own_kernel_share == pytest.approx(1.0 if own else 0.0, abs=0.2)
    assert (verdict.facts.reuse is Reuse.LIBRARY) == (not own)


@pytest.mark.parametrize("name", ["cached_weights", "renamed_weights"])
def test_an_honest_kernel_with_weights_passes(name: str, referee: Referee) -> None:
    verdict = judge(referee, LINEAR, source_of(f"honest/{name}"))
    assert verdict.status is Status.OK, verdict


def test_weights_baked_in_at_construction_are_found(referee: Referee) -> None:
    baked = source_of("honest/cached_weights").replace(
        "if self.linear.weight._version != self.version:", "if self.version == -1:"
    )
    verdict = judge(referee, LINEAR, baked)
    assert (verdict.status, verdict.reason) == (Status.WRONG_VALUE, "wrong_value")
    assert "spiked" in verdict.log


def test_configurations_are_raced_and_the_best_one_wins(referee: Referee) -> None:
    points = [{"UNROLL": 16}, {"UNROLL": 64}, {"UNROLL": 0}]
    verdict = judge(referee, SOFTMAX, source_of("honest/tuned_softmax"), configurations=points)
    assert verdict.status is Status.OK, verdict
    assert verdict.configuration in points[:2]
    tried = {tuple(r.configuration.values()): r for r in verdict.configurations}
    assert [tried[(n,)].status for n in (16, 64)] == [Status.OK, Status.OK]
    assert tried[(0,)].status is not Status.OK
    assert tried[(0,)].latency_ms is None
    assert all((tried[(n,)].latency_ms or 0) > 0 for n in (16, 64))


def test_configurations_of_a_program_without_any_fail(referee: Referee) -> None:
    source = source_of("honest/torch_expression")
    request = EvaluationRequest(
        problem=SOFTMAX,
        candidate=Candidate.of(SOFTMAX.key, source),
        configurations=({"UNROLL": 1},),
    )
    verdict = referee.evaluate(request)
    assert (verdict.status, verdict.reason) == (Status.BUILD_ERROR, "no_configuration")
