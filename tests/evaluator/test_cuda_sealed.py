"""Sealed legs from both ends, on a stand-in for the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from archives.evaluation import Interval, Status
from evaluator.referee.correctness import Bound
from evaluator.referee.cuda import pairs, sealed, stopwatch
from evaluator.referee.cuda.arena import CudaArena
from evaluator.referee.cuda.candidate import CHECK_ROOM, TIMED_ROOM, CudaCandidate
from evaluator.referee.cuda.clocks import SealBases, SealedLeg, overclaimed, shortfall
from evaluator.referee.cuda.monitor import summary
from evaluator.referee.cuda.pages import Pages
from evaluator.referee.cuda.sealed import SealedClock, measure_bases, open_trial
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.cuda.timed_outputs import TimedOutputs
from evaluator.referee.effort import SEARCH_EFFORT, VERIFY_EFFORT, Effort
from evaluator.referee.failure import CandidateFailed
from evaluator.referee.timing import Ratio, estimate
from evaluator.referee.votes import steady_variants, timed_bounds
from evaluator.worker.cuda.sealed import piece_of
from problems.errors import EvaluatorError
from tests.evaluator.referee_cases import SOFTMAX
from tests.evaluator.stand_in_gpu import open_arena

HEAD = "import torch\nfrom torch import nn\n\n\nclass ModelNew(nn.Module):"
LEGS = 3
NOTHING_BESIDE = SealBases(leg_ms=0.0, late_ms=0.0, flush_ms=0.0, copy_ms_per_byte=1.0)


@pytest.fixture(autouse=True)
def worker_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a worker's own process would have; nobody waits long for what is never queued."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVOKERNEL_BUILD_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sealed, "PATIENCE_S", 0.02)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def clock_of(
    arena: CudaArena, session: CudaSession, source: str
) -> tuple[SealedClock, CudaCandidate]:
    candidate = arena.process(arena.build_folder(), timed=False)
    candidate.open(0, source)
    room = candidate.give_room(TIMED_ROOM, session.memory.num_timed)
    outputs = TimedOutputs(session, candidate, room)
    return SealedClock(session, candidate, TIMED_ROOM, outputs), candidate


def legs_of(body: str, folder: Path) -> list[SealedLeg]:
    with open_arena(SOFTMAX, folder) as (arena, session, _):
        clock, candidate = clock_of(arena, session, HEAD + body)
        try:
            return clock.legs(0, 1.0, NOTHING_BESIDE, LEGS)
        finally:
            candidate.end()


def test_a_leg_sees_its_inputs_only_once_it_is_let_go(tmp_path: Path) -> None:
    """Its outputs are right, though its inputs came after it was queued."""
    legs = legs_of("\n    def forward(self, x):\n        return torch.softmax(x, 1)\n", tmp_path)
    assert all(leg.call_ms > 0 for leg in legs)
    # The stand-in works at once: it can only begin when it is let go, so that it is not asked on.
    assert [leg.queued for leg in legs] == [False, False]
    assert legs[1].calls < legs[0].calls


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (
            """
    kept = None

    def forward(self, x):
        if self.kept is None:
            self.kept = torch.softmax(x, 1)
        return self.kept.clone()
""",
            Status.WRONG_VALUE,
            "wrong_when_timed",
        ),
        (
            """
    def forward(self, x):
        y = torch.softmax(x, 1)
        x.add_(1)
        return y
""",
            Status.MUTATED_INPUT,
            "mutated_input",
        ),
        (
            """
    def forward(self, x):
        raise ValueError("no")
""",
            Status.RUNTIME_ERROR,
            "forward_raised",
        ),
    ],
    ids=["replays its output", "writes to its input", "raises"],
)
def test_a_candidate_fails_that(body: str, status: Status, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CandidateFailed) as failure:
        legs_of(body, tmp_path)
    assert (failure.value.status, failure.value.reason) == (status, reason), failure.value.log


def test_a_device_that_cannot_be_queued_has_no_bases(tmp_path: Path) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        trial = arena.process(arena.build_folder(), timed=False)
        assert open_trial(session, trial)
        assert measure_bases(session, trial) is None
        trial.end()


def test_a_reference_that_does_not_load_elsewhere_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, session, _):
        session.problem = replace(session.problem, source="raise OSError('not here')")
        trial = arena.process(arena.build_folder(), timed=False)
        assert not open_trial(session, trial)
        assert "the wall has to do" in caplog.text
        trial.end()


def test_processes_have_pages_of_their_own_and_give_them_back(tmp_path: Path) -> None:
    with open_arena(SOFTMAX, tmp_path) as (arena, _, _):
        first = arena.process(arena.build_folder(), timed=False)
        second = arena.process(arena.build_folder(), timed=False)
        pages = {first.page, second.page}
        assert len(pages) == 2
        assert 0 not in pages
        first.end()
        first.end()
        third = arena.process(arena.build_folder(), timed=False)
        assert third.page in pages - {second.page}
        assert third.check_room.number != second.check_room.number
        for one in (second, third):
            one.end()
    assert CHECK_ROOM != TIMED_ROOM


def test_pages_that_are_all_taken_are_an_error() -> None:
    pages = Pages(3)
    assert {pages.take(), pages.take()} == {1, 2}
    with pytest.raises(EvaluatorError, match="evaluate fewer candidates"):
        pages.take()


class TestShortfall:
    BASES = replace(NOTHING_BESIDE, excess_ms=0.004)

    def legs(self, call_ms: float, calls: int = 64) -> list[SealedLeg]:
        return [SealedLeg(call_ms=call_ms, calls=calls, queued=True)] * 5

    def test_events_that_say_no_less_agree(self) -> None:
        assert shortfall(self.legs(0.05), NOTHING_BESIDE, 0.052) == 1.0
        assert shortfall(self.legs(0.05), NOTHING_BESIDE, 0.049) == 1.0

    def test_events_that_say_less_fall_short_by_so_much(self) -> None:
        found = shortfall(self.legs(0.1), NOTHING_BESIDE, 0.05)
        assert found == pytest.approx(2.0, rel=0.01)

    def test_a_forged_tenth_is_seen_of_a_short_kernel(self) -> None:
        assert shortfall(self.legs(0.02), NOTHING_BESIDE, 0.018) > 1

    def test_what_the_reference_takes_in_excess_a_candidate_may_take(self) -> None:
        assert shortfall(self.legs(0.054), self.BASES, 0.05) == 1.0
        assert shortfall(self.legs(0.06), self.BASES, 0.05) > 1

    def test_one_disturbed_leg_does_not_decide(self) -> None:
        assert shortfall([*self.legs(0.05), *self.legs(9.0)[:1]], NOTHING_BESIDE, 0.05) == 1.0

    def test_one_leg_that_is_too_short_does_not_decide(self) -> None:
        found = shortfall([*self.legs(0.1), *self.legs(0.0)[:1]], NOTHING_BESIDE, 0.05)
        assert found == pytest.approx(2.0, rel=0.01)

    def test_who_queues_slowly_gets_no_more_slack(self) -> None:
        cut = self.legs(0.1, calls=64)[:1] + self.legs(0.1, calls=1)
        assert shortfall(cut, NOTHING_BESIDE, 0.08) == shortfall(
            self.legs(0.1), NOTHING_BESIDE, 0.08
        )


class TestOverclaimed:
    """A reference of 0.1 ms a call; a candidate whose events say 0.05."""

    BASES = replace(NOTHING_BESIDE, elsewhere_ms=0.02)

    def legs(self, call_ms: float, reference_ms: float = 0.1, calls: int = 16) -> list[SealedLeg]:
        leg = SealedLeg(call_ms=call_ms, calls=calls, queued=True, reference_ms=reference_ms)
        return [leg] * 12

    def claimed(self, speedup: float = 2.0, reference_ms: float = 0.1) -> Ratio:
        return Ratio(
            speedup=speedup,
            interval=Interval(low=speedup, high=speedup),
            latency_ms=reference_ms / speedup,
            reference_ms=reference_ms,
            num_blocks=20,
            width=1.0,
        )

    def test_a_ratio_that_both_clocks_see_agrees(self) -> None:
        assert overclaimed(self.legs(0.05), NOTHING_BESIDE, self.claimed()) == 1.0
        # What both sides take less of, sealed, is in no ratio.
        assert overclaimed(self.legs(0.042, 0.084), NOTHING_BESIDE, self.claimed()) == 1.0

    def test_of_a_claim_a_tenth_beyond_sealed_legs_counts(self) -> None:
        found = overclaimed(self.legs(0.0625), NOTHING_BESIDE, self.claimed())
        assert found == pytest.approx(1.25 / 1.1, rel=0.01)
        assert overclaimed(self.legs(0.054), NOTHING_BESIDE, self.claimed()) == 1.0

    def test_a_quarter_of_a_tenth_of_a_millisecond_is_seen_in_legs_of_one_call(self) -> None:
        legs = self.legs(0.1, 0.1, calls=1)
        found = overclaimed(legs, NOTHING_BESIDE, self.claimed(speedup=1 / 0.75))
        assert 1 / 0.75 / found < 1.17

    def test_what_the_reference_takes_longer_elsewhere_a_candidate_may_take(self) -> None:
        legs = self.legs(0.07, calls=1)
        assert overclaimed(legs, NOTHING_BESIDE, self.claimed()) > 1
        assert overclaimed(legs, self.BASES, self.claimed()) == 1.0

    def test_legs_of_one_call_by_choice_may_differ_by_more(self) -> None:
        bases = replace(self.BASES, single_ms=0.02)
        assert overclaimed(self.legs(0.09, calls=1), bases, self.claimed()) == 1.0
        assert overclaimed(self.legs(0.09, calls=1), self.BASES, self.claimed()) > 1.1
        assert overclaimed(self.legs(0.09), bases, self.claimed()) > 1.5

    def test_a_reference_that_is_slowed_confirms_no_claim(self) -> None:
        """Whatever is left on the device by a candidate must not lengthen what it is held to."""
        found = overclaimed(self.legs(0.1, 0.2), NOTHING_BESIDE, self.claimed())
        assert found == pytest.approx(2 / 1.1 / 1.1, rel=0.01)

    def test_a_reference_that_is_launched_more_slowly_than_it_runs_keeps_its_number(self) -> None:
        legs, bases = self.legs(0.05, 0.03), replace(NOTHING_BESIDE, own_share=0.3)
        assert overclaimed(legs, bases, self.claimed()) == 1.0
        assert overclaimed(legs, NOTHING_BESIDE, self.claimed()) > 1

    def test_legs_of_one_call_scatter_and_the_second_shortest_counts(self) -> None:
        bases = replace(self.BASES, single_ms=0.02)
        legs = [*self.legs(0.09, calls=1)[:2], *self.legs(0.3, calls=1)]
        assert overclaimed(legs, bases, self.claimed()) == 1.0
        assert overclaimed(legs[1:], bases, self.claimed()) > 2

    def test_disturbed_legs_do_not_decide(self) -> None:
        legs = [*self.legs(0.05), *self.legs(3.0)[:3], *self.legs(0.05, 5.0)[:3]]
        assert overclaimed(legs, NOTHING_BESIDE, self.claimed()) == 1.0


QUEUED = SealedLeg(call_ms=0.1, calls=4, queued=True, reference_ms=0.1)


class TestVerifiedShortCalls:
    """On the stand-in neither clock tells of a device: what a sealed leg says is written here."""

    @pytest.fixture(autouse=True)
    def believing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(stopwatch, "shortfall", lambda *_: 1.0)
        monkeypatch.setattr(stopwatch, "LEAST_CLAIM", 0.0)
        monkeypatch.setattr(stopwatch, "SHORT_CALL_MS", 1e9)
        monkeypatch.setattr(stopwatch, "SLOWED_FACTOR", 50.0)
        monkeypatch.setattr(pairs, "overclaimed", lambda *_: 1000.0)

    def timed(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        effort: Effort,
        sealed_legs: Sequence[Sequence[SealedLeg]],
    ) -> tuple[float, str]:
        """The speedup, and what is said of it, where these are the sealed legs in turn."""
        left = list(sealed_legs)
        monkeypatch.setattr(SealedClock, "legs", lambda *_: left.pop(0))
        with open_arena(SOFTMAX, folder) as (arena, session, _):
            session.seal_bases = NOTHING_BESIDE
            candidate = arena.process(arena.build_folder(), timed=True)
            body = "\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
            candidate.open(0, HEAD + body)
            arena.furnish(candidate)
            less = replace(effort, blocks=4, enough_width=1e9, max_width=1e9)
            try:
                speedup = estimate(arena.watch(candidate).blocks(0, 1.0, less)).speedup
            finally:
                candidate.end()
        assert not left, "each leg is asked for"
        return speedup, summary(arena.conditions)

    def test_a_search_takes_one_clock_s_word(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        speedup, log = self.timed(tmp_path, monkeypatch, SEARCH_EFFORT, [[QUEUED] * 3])
        assert speedup > 0.05
        assert "confirm" not in log

    def test_a_verification_holds_them_to_sealed_legs_of_both_sides(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        legs = [[QUEUED] * 5, [QUEUED] * 12, [QUEUED] * 12]
        speedup, log = self.timed(tmp_path, monkeypatch, VERIFY_EFFORT, legs)
        assert speedup < 0.05
        assert "confirm 1/1e+03" in log

    def test_who_can_be_queued_no_more_gets_no_verdict(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        legs = [[QUEUED] * 5, [replace(QUEUED, queued=False)] * 2]
        with pytest.raises(CandidateFailed) as caught:
            self.timed(tmp_path, monkeypatch, VERIFY_EFFORT, legs)
        assert caught.value.status is Status.UNSTABLE

    def test_who_waits_for_the_device_is_held_to_the_wall_as_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waiting = replace(QUEUED, queued=False)
        legs = [[waiting] * 2, [waiting] * 2]
        assert self.timed(tmp_path, monkeypatch, VERIFY_EFFORT, legs)[0] > 0.05


class TestPieces:
    @pytest.mark.parametrize("at", [0.0, 0.3, 1.0])
    def test_a_region_that_is_left_out_is_in_every_piece(self, at: float) -> None:
        output = torch.zeros(1000, 2048)
        output[250:500] = 1.0  # A quarter.
        piece = piece_of(output, at)
        assert piece.numel() == 1 << 18
        assert piece.mean().item() == pytest.approx(0.25, abs=0.01)

    @pytest.mark.parametrize("at", [0.1, 0.37, 0.9])
    def test_columns_that_are_left_out_are_in_many_pieces(self, at: float) -> None:
        output = torch.zeros(1024, 1 << 14)
        output[:, : 1 << 12] = 1.0  # A quarter of each row, whose length is a power of two.
        found = piece_of(output, at).mean(dim=1)
        assert 0.1 < (found > 0).float().mean().item() < 0.6

    def test_what_is_no_larger_is_looked_at_whole(self) -> None:
        output = torch.zeros(1 << 18)
        assert piece_of(output, 0.5) is output
        indices = torch.zeros(1 << 20, dtype=torch.int64)
        assert piece_of(indices, 0.5) is indices


def test_timed_outputs_may_err_by_little_more_than_checked_ones() -> None:
    bounds = {
        "own": (Bound(rms=1.0, peak=3.0),) * 2,
        "spiked": (Bound(rms=0.5, peak=4.0),) * 2,
        "negated": (Bound(rms=2.0, peak=1.0),) * 2,
        "scaled_up": (Bound(rms=9.0, peak=9.0),) * 2,
    }
    few, many = timed_bounds(bounds, "own", (1, 1 << 20))
    assert few == Bound(rms=2.0, peak=8.0)
    assert many == Bound(rms=1.25, peak=8.0)
    assert timed_bounds(bounds, "negated", (1, 1 << 20))[0] == Bound(rms=4.0, peak=32.0)


def test_timed_sets_are_of_distributions_on_which_the_reference_is_steady() -> None:
    own, worse = Bound(rms=1.0, peak=4.0), Bound(rms=1.2, peak=5.0)
    bounds = {
        "own": (own, own),
        "spiked": (own, worse),
        "negated": (own, worse),
        "scaled_up": (Bound(rms=3.1, peak=4.0), own),
        "around_zero": (own, Bound(rms=1.0, peak=16.0)),
    }
    permitted = ("own", "spiked", "scaled_up", "negated", "around_zero")
    assert steady_variants(permitted, bounds) == ("own", "spiked", "negated")
    assert steady_variants(("own",), bounds) == ("own",)
