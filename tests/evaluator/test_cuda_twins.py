"""Twins of short calls: what a candidate gains by its process alone does not count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch

from archives.candidate import Candidate
from archives.evaluation import Status
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.referee.cuda.arena import CudaArena
from evaluator.referee.cuda.candidate import CudaCandidate
from evaluator.referee.cuda.stopwatch import CudaStopwatch
from evaluator.referee.cuda.twins import TwinnedWatch
from evaluator.referee.effort import VERIFY_EFFORT, VERIFY_PROCESSES, Effort
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.ladder import climb
from evaluator.referee.timing import Block, estimate
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
    def speedup(self, own: Clock, twin: Clock) -> float:
        watch = TwinnedWatch(own, lambda: twin, 0.015, lambda: None)
        return estimate(watch.blocks(0, 0.015, VERIFY_EFFORT)).speedup

    def test_the_reference_is_no_faster_than_itself_in_a_faster_process(self) -> None:
        assert self.speedup(Clock(0.975), Clock(0.975)) == pytest.approx(1.0)

    def test_a_kernel_keeps_what_its_twin_leaves(self) -> None:
        assert self.speedup(Clock(0.5), Clock(0.8)) == pytest.approx(1.6)

    def test_a_twin_that_is_slowed_gives_nothing(self) -> None:
        assert self.speedup(Clock(0.5), Clock(2.0)) == pytest.approx(2.0)

    def test_nobody_is_asked_for_a_candidate_that_gains_nothing(self) -> None:
        twin = Clock(0.9)
        assert self.speedup(Clock(1.25), twin) == pytest.approx(0.8)
        assert twin.timed == 0

    def test_a_twin_that_fails_is_not_the_candidate_s_fault(self) -> None:
        failure = CandidateFailed(Status.TIMING_MISMATCH, "events", "a call takes longer")
        with pytest.raises(CandidateFailed) as raised:
            self.speedup(Clock(0.5), Clock(1.0, failure))
        assert "a call takes longer" in raised.value.log
        assert (raised.value.status, raised.value.reason) == (Status.UNSTABLE, "host_noisy")


@pytest.fixture
def worker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("evaluator.referee.cuda.clocks.ABSOLUTE_MS", 50.0)
    monkeypatch.setattr("evaluator.referee.cuda.stopwatch.SLOWED_FACTOR", 50.0)
    # The stand-in queues nothing, so nothing can be sealed there.
    monkeypatch.setattr("evaluator.referee.cuda.arena.has_twins", lambda session: True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)


@pytest.mark.parametrize("verifies", [True, False])
def test_each_process_of_a_verification_has_a_twin_with_its_weights(
    worker_folder: Path, monkeypatch: pytest.MonkeyPatch, *, verifies: bool
) -> None:
    started: list[CudaCandidate] = []
    twins: list[CudaCandidate] = []
    weighted: list[CudaCandidate] = []
    load, start = CudaCandidate.load_weights, CudaCandidate.__init__

    def noted_load(self: CudaCandidate, index: int) -> bool:
        weighted.append(self)
        return load(self, index)

    def noted_start(self: CudaCandidate, *args: object, **fields: object) -> None:
        started.append(self)
        start(self, *args, **fields)  # type: ignore[arg-type]

    monkeypatch.setattr(CudaCandidate, "load_weights", noted_load)
    monkeypatch.setattr(CudaCandidate, "__init__", noted_start)
    source = LINEAR.source.replace("class Model(", "class ModelNew(")
    request = EvaluationRequest(
        problem=LINEAR, candidate=Candidate.of(LINEAR.key, source), purpose=Purpose.VERIFY
    )
    with open_arena(LINEAR, worker_folder) as (stand_in, session, sets):
        arena = CudaArena(stand_in._bench, session, sets, verifies=verifies)

        def timed(*_: object) -> list[Block]:
            return Clock(1.0).blocks(0, 0.015, VERIFY_EFFORT)

        def timed_beside(*_: object) -> list[Block]:
            assert arena._twins is not None
            assert arena._twins._twin is not None
            twins.append(arena._twins._twin)
            return timed()

        monkeypatch.setattr(CudaStopwatch, "blocks", timed)
        monkeypatch.setattr(TwinnedWatch, "blocks", timed_beside)
        climb(arena, request, Findings())
        arena.close()
    assert len(set(twins)) == (VERIFY_PROCESSES if verifies else 0)
    assert len(started) == 1 + VERIFY_PROCESSES + len(twins)
    assert set(twins) <= set(weighted)
    assert not any(process.alive for process in started)
