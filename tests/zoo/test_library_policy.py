"""The zoo's honest controls: a library used openly is worth what the run says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives.candidate import Candidate
from archives.evaluation import LIBRARY_WORK, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.cpu import CpuStation
from evaluator.referee.referee import Referee
from evokernel.library import held_to
from tests.zoo.entries import honest, problem
from tests.zoo.judging import evaluate

ENTRIES = {entry.name: entry for entry in honest()}


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    """One warm referee for all."""
    one = Referee(CpuStation())
    one.start()
    yield one
    one.close()


@pytest.mark.parametrize(
    ("name", "is_rejected"), [("library_product", True), ("native_softmax", False)]
)
def test_a_library_used_openly_is_worth_what_the_run_says(
    name: str, is_rejected: bool, referee: Referee
) -> None:
    entry = ENTRIES[name]
    verdict = evaluate(referee, entry)
    if verdict.status is Status.UNSTABLE:
        pytest.skip(f"this host is too busy to time anything: {verdict.log}")
    assert verdict.status is Status.OK, verdict
    what = problem(entry.problem)
    request = EvaluationRequest(problem=what, candidate=Candidate.of(what.key, entry.source))
    assert held_to("mark", request, verdict) is held_to("allow", request, verdict) is verdict
    held = held_to("reject", request, verdict)
    assert (held.reason == LIBRARY_WORK) == is_rejected, held
    assert (held.status is Status.OK) == (not is_rejected)
