"""Who is told to have taken the memory that a reference did not find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator.evaluator import EvaluationRequest
from evaluator.referee.cuda.arena import CudaArena
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.reference import CudaReference
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.verdict import Findings
from problems.errors import DeviceCrowded
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import StandInDriver, open_arena

pytestmark = pytest.mark.usefixtures("stand_in_folder")

GIB = 1 << 30
STEPS = {"when it is compared": "compare", "when it is timed": "leg"}


class FullDevice:
    """A reference that finds no memory in one step, and a driver that says what there is."""

    def __init__(self, patch: pytest.MonkeyPatch, step: str, freed_bytes: int) -> None:
        self._freed_bytes = freed_bytes
        self._ended = False
        patch.setattr(CudaReference, step, self.refuse)
        patch.setattr(StandInDriver, "memory", property(lambda _: self.memory()))
        patch.setattr(CudaCandidate, "end", self.end(CudaCandidate.end))

    def memory(self) -> tuple[int, int]:
        return GIB + self._ended * self._freed_bytes, 140 * GIB

    def end(self, end: Callable[[CudaCandidate], None]) -> Callable[[CudaCandidate], None]:
        def ended(process: CudaCandidate) -> None:
            end(process)
            self._ended = True

        return ended

    def refuse(self, *_: object, **__: object) -> None:
        raise DeviceCrowded("others have it at the moment")


def judged(arena: CudaArena) -> Findings:
    source = SOFTMAX.source.replace("class Model(", "class ModelNew(")
    findings = Findings()
    climb(
        arena,
        EvaluationRequest(problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, source)),
        findings,
    )
    return findings


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_candidate_that_held_most_of_the_memory_took_it(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        FullDevice(monkeypatch, step, 100 * GIB)
        with pytest.raises(CandidateFailed) as caught:
            judged(arena)
        assert (caught.value.status, caught.value.reason) == (
            Status.OUT_OF_MEMORY,
            "hoarded_memory",
        )
        assert str(100 * GIB) in caught.value.log
        assert str(session.memory.candidate_bytes) in caught.value.log
        assert not session.ended, "the next one is judged there"


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_candidate_that_held_little_is_judged_again(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        FullDevice(monkeypatch, step, 2 * GIB)
        with pytest.raises(DeviceCrowded, match="others have it"):
            judged(arena)
