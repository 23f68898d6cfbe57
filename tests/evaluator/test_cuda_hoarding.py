"""Who is told to have taken the memory that a reference did not find."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from archives.candidate import Candidate
from archives.evaluation import DeviceFingerprint, Status
from evaluator.evaluator import EvaluationRequest
from evaluator.gate import Gate
from evaluator.referee.cuda import starting
from evaluator.referee.cuda.arena import CudaArena
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.hoarding import telling_hoarders
from evaluator.referee.cuda.reference import CudaReference
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.referee import Referee
from evaluator.referee.verdict import Findings
from evaluator.worker.failures import Failure
from problems.errors import DeviceCrowded
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import StandInDriver, open_arena

pytestmark = pytest.mark.usefixtures("stand_in_folder")

GIB = 1 << 30
DEVICE = DeviceFingerprint(kind="cuda", name="A GPU", uuid="g", threads=1, versions={})
STEPS = {"when it is compared": "compare", "when it is timed": "leg"}


class FullDevice:
    """A reference that finds no memory in one step, and a driver that says what there is.

    What there is grows when the hoarder ends, or, where none is named, the first process that does.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        step: str,
        freed_bytes: int,
        hoarder: CudaCandidate | None = None,
    ) -> None:
        self._freed_bytes = freed_bytes
        self._hoarder = hoarder
        self._ended = False
        patch.setattr(CudaReference, step, self.refuse)
        patch.setattr(StandInDriver, "memory", property(lambda _: self.memory()))
        patch.setattr(CudaCandidate, "end", self.end(CudaCandidate.end))

    def memory(self) -> tuple[int, int]:
        return GIB + self._ended * self._freed_bytes, 140 * GIB

    def end(self, end: Callable[[CudaCandidate], None]) -> Callable[[CudaCandidate], None]:
        def ended(process: CudaCandidate) -> None:
            end(process)
            self._ended = self._ended or self._hoarder in (None, process)

        return ended

    def refuse(self, *_: object, **__: object) -> None:
        raise DeviceCrowded("others have it at the moment")


def judge(arena: CudaArena) -> None:
    source = SOFTMAX.source.replace("class Model(", "class ModelNew(")
    candidate = Candidate.of(SOFTMAX.key, source)
    climb(arena, EvaluationRequest(problem=SOFTMAX, candidate=candidate), Findings())


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_candidate_that_held_most_of_the_memory_took_it(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        FullDevice(monkeypatch, step, 100 * GIB)
        with pytest.raises(CandidateFailed) as caught:
            judge(arena)
        assert (caught.value.status, caught.value.reason) == (
            Status.OUT_OF_MEMORY,
            "hoarded_memory",
        )
        assert str(100 * GIB) in caught.value.log
        assert str(session.memory.candidate_bytes) in caught.value.log
        assert not session.ended, "the next one is judged there"


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_candidate_that_held_little_is_not_to_blame(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        FullDevice(monkeypatch, step, 2 * GIB)
        with pytest.raises(DeviceCrowded, match="others have it"):
            judge(arena)


def test_what_another_one_holds_is_nobody_else_s(tmp_path: Path) -> None:
    """Two find no memory at a time: what the hoarder gives back is not counted as the other's."""
    free, told = [GIB], {}
    gate = Gate("gpu", tmp_path)

    class Process:
        alive = True

        def __init__(self, holds: int) -> None:
            self.holds = holds

        def end(self) -> None:
            time.sleep(0.1)
            free[0] += self.holds

    def trim() -> tuple[int, int]:
        return free[0], 140 * GIB

    session: Any = SimpleNamespace(
        memory=SimpleNamespace(candidate_bytes=GIB), reference=SimpleNamespace(trim=trim)
    )

    def ask(name: str, holds: int) -> None:
        ended: Any = Process(0)
        ended.alive = False
        processes: list[Any] = [Process(holds), *[ended] * 100]
        try:
            with telling_hoarders(session, processes, gate.exclusive):
                raise DeviceCrowded("others have it")
        except (CandidateFailed, DeviceCrowded) as error:
            told[name] = type(error)

    threads = [
        threading.Thread(target=ask, args=one) for one in (("honest", GIB), ("other", 100 * GIB))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert told == {"honest": DeviceCrowded, "other": CandidateFailed}


def test_a_candidate_is_asked_alone(tmp_path: Path) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        arena.process(arena.build_folder(), timed=True)
        thread = threading.Thread(target=_crowded, args=(arena,))
        with arena.gate.shared():
            thread.start()
            thread.join(0.2)
            assert thread.is_alive(), "it waits until nobody shares the device"
        thread.join(10)
        assert not thread.is_alive()


def _crowded(arena: CudaArena) -> None:
    with pytest.raises(DeviceCrowded), arena._telling_hoarders():
        raise DeviceCrowded("others have it")


def test_a_further_process_finds_no_memory_beside_a_hoarder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "PATIENCE_S", 0.0)
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        hoarder = arena.process(arena.build_folder(), timed=True)
        FullDevice(monkeypatch, "room", 100 * GIB, hoarder)
        with pytest.raises(CandidateFailed) as caught:
            arena.process(arena.build_folder(), timed=True)
        assert caught.value.reason == "hoarded_memory"


def test_no_memory_for_a_context_is_others_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: StandInDriver) -> None:
        raise Failure(Status.OUT_OF_MEMORY, "allocation_failed", "a context: out of memory")

    monkeypatch.setattr(starting, "PATIENCE_S", 0.0)
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        monkeypatch.setattr(StandInDriver, "start", refuse)
        with pytest.raises(DeviceCrowded, match="no context on the GPU: a context"):
            arena.process(arena.build_folder(), timed=True)


@pytest.mark.parametrize("times", [1, 2])
def test_who_found_no_memory_is_judged_once_more(times: int) -> None:
    asked: list[EvaluationRequest] = []

    def crowded(_: object, request: EvaluationRequest, __: object) -> tuple[None, None]:
        asked.append(request)
        if len(asked) <= times:
            raise DeviceCrowded("others have it")
        raise CandidateFailed(Status.WRONG_VALUE, "wrong_value", "it was judged")

    station: Any = SimpleNamespace(
        caller=nullcontext, judge=crowded, device=DEVICE, referee_version="stand-in"
    )
    request = EvaluationRequest(
        problem=SOFTMAX, candidate=Candidate.of(SOFTMAX.key, "class ModelNew: pass\n")
    )
    with nullcontext() if times == 1 else pytest.raises(DeviceCrowded):
        assert Referee(station).evaluate(request).status is Status.WRONG_VALUE
    assert len(asked) == 2
