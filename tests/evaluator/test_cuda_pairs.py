"""Pairs of sealed legs: what they confirm of what events claim."""

from __future__ import annotations

from dataclasses import replace

from archives.evaluation import Interval
from evaluator.referee.cuda.clocks import SealBases, SealedLeg
from evaluator.referee.cuda.pairs import unconfirmed
from evaluator.referee.timing import Ratio


class TestUnconfirmed:
    """A candidate that takes as long as the reference, 0.4 ms, and whose events say 0.1."""

    BASES = SealBases(
        leg_ms=0.0,
        late_ms=0.0,
        flush_ms=0.0,
        copy_ms_per_byte=1.0,
        elsewhere_ms=0.03,
        single_ms=0.03,
    )
    CLAIM = Ratio(
        speedup=4.0,
        interval=Interval(low=4.0, high=4.0),
        latency_ms=0.1,
        reference_ms=0.4,
        num_blocks=20,
        width=1.0,
    )

    def merging(self, most_calls: int | None) -> list[SealedLeg]:
        """Computes all calls of a leg in the first one, which takes a fifth of the time."""
        calls = most_calls or 5
        leg = SealedLeg(
            call_ms=0.43 / calls, calls=calls, queued=True, reference_ms=0.4 if calls > 1 else 0.41
        )
        return [leg] * 12

    def honest(self, most_calls: int | None) -> list[SealedLeg]:
        calls = most_calls or 5
        leg = SealedLeg(call_ms=0.1 + 0.04 / calls, calls=calls, queued=True, reference_ms=0.4)
        return [leg] * 12

    def test_calls_that_are_computed_in_another_one_are_seen_in_legs_of_one(self) -> None:
        held = unconfirmed(self.merging, self.BASES, self.CLAIM, was_queued=True)
        assert self.CLAIM.speedup / held < 1.35
        alone = replace(self.BASES, single_ms=None)
        assert unconfirmed(self.merging, alone, self.CLAIM, was_queued=True) == 1.0

    def test_an_honest_claim_is_confirmed_by_both(self) -> None:
        assert unconfirmed(self.honest, self.BASES, self.CLAIM, was_queued=True) == 1.0

    def test_legs_that_were_disturbed_are_joined_by_more_of_them(self) -> None:
        asked: list[int | None] = []

        def disturbed(most_calls: int | None) -> list[SealedLeg]:
            asked.append(most_calls)
            legs = self.honest(most_calls)
            return [replace(leg, call_ms=5.0) for leg in legs] if len(asked) == 1 else legs * 2

        assert unconfirmed(disturbed, self.BASES, self.CLAIM, was_queued=True) == 1.0
        assert asked == [None, None, 1]
