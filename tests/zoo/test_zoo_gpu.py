"""The zoo on a GPU: Triton, CUDA graphs and streams; `pytest -m gpu tests/zoo` runs it there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from archives.evaluation import Status
from evaluator.referee.cuda.station import CudaStation
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.referee import Referee
from tests.zoo.entries import HONEST, Entry, on_gpu
from tests.zoo.judging import (
    evaluate,
    outcome,
    require_passed,
    require_speedup,
    require_verdict,
    told_of,
)

pytestmark = pytest.mark.gpu
ENTRIES = on_gpu()


@pytest.fixture(scope="module")
def referee() -> Iterator[Referee]:
    """One warm referee for all: its problems stay open."""
    one = Referee(CudaStation(deadlines=Deadlines(call_s=5, build_s=120)))
    one.start()
    yield one
    one.close()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_gets_its_verdict(
    entry: Entry, referee: Referee, tmp_path_factory: pytest.TempPathFactory
) -> None:
    verdict = told_of(referee, entry)
    require_verdict(verdict, entry, tmp_path_factory.getbasetemp(), len(ENTRIES))
    told = (verdict.status, verdict.reason, verdict.speedup, verdict.interval, verdict.log)
    assert outcome(verdict) & entry.verdicts, told
    require_speedup(verdict, entry)
    if entry.kind == HONEST:
        require_passed(verdict, entry)


@pytest.mark.parametrize("name", ["hoards_memory", "misaligned_output"])
def test_the_next_candidate_is_judged_as_if_nothing_had_been(name: str, referee: Referee) -> None:
    entries = {entry.name: entry for entry in ENTRIES}
    doomed, honest = entries[name], entries["honest_triton"]
    assert doomed.problem == honest.problem, "the same reference is asked"
    assert outcome(evaluate(referee, doomed)) & doomed.verdicts
    verdict = evaluate(referee, honest)
    assert verdict.status is Status.OK, verdict
