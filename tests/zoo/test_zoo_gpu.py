"""The zoo on a GPU: Triton, CUDA graphs and streams; `pytest -m gpu tests/zoo` runs it there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives.evaluation import Status
from evaluator.referee.cuda.station import CudaStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from tests.zoo.entries import HONEST, Entry, on_gpu
from tests.zoo.judging import evaluate, outcome

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    """One warm referee for all: its problems stay open."""
    one = Referee(CudaStation(deadlines=Deadlines(call_s=5, build_s=120)))
    one.start()
    yield one
    one.close()


@pytest.mark.parametrize("entry", on_gpu(), ids=lambda entry: entry.name)
def test_an_entry_gets_its_verdict(entry: Entry, referee: Referee) -> None:
    verdict = evaluate(referee, entry)
    assert outcome(verdict) & entry.verdicts, verdict
    if entry.kind == HONEST:
        assert verdict.status is Status.OK, verdict
