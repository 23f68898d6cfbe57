"""Twins of short calls: what a candidate gains by its process alone does not count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.clocks import SealBases
from evaluator.referee.cuda.monitor import summary
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.stopwatch import CudaStopwatch
from evaluator.referee.cuda.twins import TwinnedWatch, has_twins
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.effort import VERIFY_EFFORT, VERIFY_PROCESSES, Effort
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.spawner import Spawner, WorkerPlan
from evaluator.referee.timing import Block, Ratio, estimate
from evaluator.referee.verdict import Findings
from tests.evaluator.referee_cases import LINEAR
from tests.evaluator.stand_in_gpu import open_arena


class Clock:
    """Says that a process takes so many times as long as the reference's 15 us."""

    def __init__(self, factor: float, failure: CandidateFailed | None = None) -> None:
        self.factor = factor
        self.failure = failure
        self.timed = 0

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        return indices[0], dict.fromkeys(indices, 0.015 * self.factor)

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        self.timed += 1
        if self.failure is not None:
            raise self.failure
        own_ms = 0.015 * self.factor
        return [Block(reference_ms=(0.015, 0.015), candidate_ms=(own_ms, own_ms))] * 20


class TestTwinnedWatch:
    def ratio(self, own: Clock, twin: Clock) -> Ratio:
        watch = TwinnedWatch(own, lambda: twin, 0.015, lambda: None)
        return estimate(watch.blocks(0, 0.015, VERIFY_EFFORT))

    @pytest.mark.parametrize("own", [0.9, 0.975, 1.0, 1.2])
    def test_the_reference_is_no_faster_than_itself_in_another_process(self, own: float) -> None:
        assert self.ratio(Clock(own), Clock(own)).speedup == pytest.approx(1 / max(own, 1))

    def test_a_kernel_keeps_its_time_and_what_its_twin_leaves(self) -> None:
        ratio = self.ratio(Clock(0.5), Clock(0.8))
        assert ratio.speedup == pytest.approx(1.6)
        assert ratio.latency_ms == pytest.approx(0.0075)
        assert ratio.reference_ms == pytest.approx(0.012)

    def test_who_is_a_little_slower_meets_its_twin_too(self) -> None:
        assert self.ratio(Clock(1.01), Clock(0.98)).speedup == pytest.approx(0.98 / 1.01)

    def test_a_twin_that_is_slowed_gives_nothing(self) -> None:
        assert self.ratio(Clock(0.5), Clock(2.0)).speedup == pytest.approx(2.0)

    def test_who_is_hopeless_has_no_need_of_it(self) -> None:
        twin = Clock(0.9)
        assert self.ratio(Clock(2.0), twin).speedup == pytest.approx(0.5)
        assert twin.timed == 0

    def test_a_twin_that_fails_is_not_the_candidate_s_fault(self) -> None:
        failure = CandidateFailed(Status.TIMING_MISMATCH, "events", "a call takes longer")
        with pytest.raises(CandidateFailed) as raised:
            self.ratio(Clock(0.5), Clock(1.0, failure))
        assert "a call takes longer" in raised.value.log
        assert (raised.value.status, raised.value.reason) == (Status.UNSTABLE, "twin_not_timed")


def test_short_calls_have_twins_where_their_reference_can_be_sealed_elsewhere() -> None:
    bases = SealBases(leg_ms=0.0, late_ms=0.0, flush_ms=0.0, copy_ms_per_byte=0.0)

    def session(alone_ms: float, seal_bases: SealBases | None) -> CudaSession:
        return cast(CudaSession, SimpleNamespace(alone_ms=alone_ms, seal_bases=seal_bases))

    assert has_twins(session(0.015, bases))
    assert not has_twins(session(0.06, bases))
    assert not has_twins(session(0.015, None))


@pytest.fixture
def worker_folder(stand_in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The stand-in queues nothing, so nothing can be sealed there.
    monkeypatch.setattr("evaluator.referee.cuda.arena.has_twins", lambda session: True)
    return stand_in_folder


class Processes:
    """Notes what was started, what has loaded weights, and whose clock said what."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[CudaCandidate] = []
        self.weighted: list[CudaCandidate] = []
        self.timed: list[CudaCandidate] = []
        load, start = CudaCandidate.load_weights, CudaCandidate.__init__

        def noted_load(process: CudaCandidate, index: int) -> bool:
            self.weighted.append(process)
            return load(process, index)

        def noted_start(
            process: CudaCandidate,
            session: CudaSession,
            spawner: Spawner,
            plan: WorkerPlan,
            deadlines: Deadlines,
        ) -> None:
            self.started.append(process)
            start(process, session, spawner, plan, deadlines)

        def noted_blocks(watch: CudaStopwatch, *_: object) -> list[Block]:
            self.timed.append(watch._candidate)
            # Whoever has not loaded the hidden weights is a twin that computes with others.
            assert watch._candidate in self.weighted
            return Clock(0.9).blocks(0, 0.015, VERIFY_EFFORT)

        monkeypatch.setattr(CudaCandidate, "load_weights", noted_load)
        monkeypatch.setattr(CudaCandidate, "__init__", noted_start)
        monkeypatch.setattr(CudaStopwatch, "blocks", noted_blocks)


def verified(folder: Path, *, verifies: bool) -> tuple[Ratio, str]:
    source = LINEAR.source.replace("class Model(", "class ModelNew(")
    request = EvaluationRequest(
        problem=LINEAR, candidate=Candidate.of(LINEAR.key, source), purpose=Purpose.VERIFY
    )
    with open_arena(LINEAR, folder, verifies=verifies) as (arena, _, _):
        ratio, _ = climb(arena, request, Findings())
        return ratio, summary(arena.conditions)


@pytest.mark.parametrize("verifies", [True, False])
def test_each_process_of_a_verification_has_a_twin_with_its_weights(
    worker_folder: Path, monkeypatch: pytest.MonkeyPatch, *, verifies: bool
) -> None:
    processes = Processes(monkeypatch)
    ratio, told = verified(worker_folder, verifies=verifies)
    twins = VERIFY_PROCESSES if verifies else 0
    assert len(processes.started) == 1 + VERIFY_PROCESSES + twins
    assert len(set(processes.timed)) == VERIFY_PROCESSES + twins
    assert not any(process.alive for process in processes.started)
    assert ratio.speedup == pytest.approx(1.0 if verifies else 1 / 0.9)
    assert ("1.111 times as fast" in told) == verifies


def test_a_twin_that_does_not_load_leaves_no_process_and_no_verdict(
    worker_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = Processes(monkeypatch)

    def fails(session: CudaSession, process: CudaCandidate, *, hidden: bool) -> None:
        raise CandidateFailed(Status.RUNTIME_ERROR, "cuda_error", "no memory")

    monkeypatch.setattr("evaluator.referee.cuda.twins.open_as_candidate", fails)
    with pytest.raises(CandidateFailed) as raised:
        verified(worker_folder, verifies=True)
    assert (raised.value.status, raised.value.reason) == (Status.UNSTABLE, "twin_not_timed")
    assert not any(process.alive for process in processes.started)
