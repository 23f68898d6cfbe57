"""Which inputs a candidate meets, and where they lie.

A *check set* is compared against float64. Its contents come from a seed that `secrets` draws.
For a verification, seeds are drawn after the candidate's source is frozen. During a search the
check sets of a problem are drawn once for many candidates and renewed every `RENEWAL` of them.
That is sound: contents never leave the referee and the workers, a verdict tells no input value,
and every candidate runs in fresh processes that see nothing of earlier ones, so no candidate can
know what it will meet; and what is reported rests on a verification.

A problem whose sets would take too much memory has room for one check set, drawn each time from a
new seed. On a CPU it is drawn anew for every set that a candidate meets, and one candidate is
judged at a time; on a GPU candidates that are there together meet the same (`cuda.turns`).

A *timed set* is met once: `mix` fills it with contents never seen before for each leg, at an
offset that changes by multiples of 64 bytes, and of a distribution chosen at random among those of
the check that the problem permits.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.values import Permitted
from evaluator.wire import ALIGNMENT_BYTES, ITEM_BYTES, ValueSpec, layout

__all__ = [
    "CHECK_PLAN",
    "COMMON_VARIANTS",
    "RENEWAL",
    "Hand",
    "MemoryPlan",
    "PlannedSet",
    "TimedDeck",
    "check_plan",
    "output_bytes",
    "secret_seed",
]

RENEWAL = 64
"""Candidates that meet one drawing of a problem's check sets during a search."""
POOL_BYTES = 48 << 20
"""Room for timed sets, unless four sets need more."""
MIN_TIMED_SETS = 4
MAX_TIMED_SETS = 512
SHIFT_STEPS = 64
"""Number of different offsets at which a timed set may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSet:
    """One check set to be drawn.

    Attributes:
        variant: Distribution, one of the wire's `VARIANTS`.
        hidden_weights: Whether parameters and buffers are redrawn for it.
    """

    variant: str
    hidden_weights: bool = False


CHECK_PLAN = (
    PlannedSet(variant="own"),
    PlannedSet(variant="scaled_up"),
    PlannedSet(variant="scaled_down"),
    PlannedSet(variant="negated"),
    PlannedSet(variant="around_zero"),
    PlannedSet(variant="spiked", hidden_weights=True),
)
"""Six distributions; hidden weights come last and stay. "spiked" is the own one but for a few
outliers, so that nobody can tell by a sample which short cut a set permits."""


def check_plan(permitted: Permitted) -> tuple[PlannedSet, ...]:
    """Return the check sets of a problem: one more of its own where the reference overflows."""
    return tuple(
        replace(planned, variant="own") if planned.variant in permitted.overflowing else planned
        for planned in CHECK_PLAN
    )


def secret_seed() -> int:
    """Return a seed that nobody can guess, from 0 to 2^63 - 1."""
    return secrets.randbits(63)


COMMON_VARIANTS = ("own", "spiked")
"""Twice as many timed sets are of these as of each other distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What the sets of a timed leg are.

    Attributes:
        variants: The distribution of each call's.
        call: The call that is to be compared.
    """

    variants: tuple[str, ...] = ()
    call: int = 0


class TimedDeck:
    """Deals distributions for the sets of timed legs, so that nobody can foresee them.

    One call of a leg is compared. Which one is chosen when its leg is mixed, and its distribution
    is a card of a deck of all that the problem permits, which is taken when it is compared: of
    seven such legs in a row each distribution is met, so a search meets all of them. Other calls
    are of any, with the same shares.
    """

    def __init__(self, permitted: Sequence[str], rng: np.random.Generator) -> None:
        """Shuffle.

        Args:
            permitted: Those of the wire's `TIMED_VARIANTS` that the problem permits.
            rng: Source of the order.
        """
        self._cards = [one for one in permitted for _ in range(1 + (one in COMMON_VARIANTS))]
        self._rng = rng
        self._left: list[str] = []

    def deal(self, count: int) -> Hand:
        """Choose for a leg of so many calls."""
        self._left = self._left or list(self._cards)
        chosen = [str(card) for card in self._rng.choice(self._cards, size=count)]
        call = int(self._rng.integers(count))
        chosen[call] = str(self._rng.choice(self._left))
        return Hand(variants=tuple(chosen), call=call)

    def compared(self, hand: Hand) -> None:
        """Note that a hand's call is compared: its card is taken."""
        card = hand.variants[hand.call]
        if card in self._left:
            self._left.remove(card)


def output_bytes(outputs: Sequence[ValueSpec], *, exact: bool = False) -> int:
    """Return the room that outputs take when they are written row-major.

    Args:
        outputs: Their specs.
        exact: In float64 where they are floating.
    """
    total = 0
    for spec in outputs:
        item = 8 if exact and "float" in spec.dtype else ITEM_BYTES[spec.dtype]
        total += -(-spec.numel * item // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return max(total, ALIGNMENT_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Where a session's sets lie in its shared memory; all numbers in bytes.

    Attributes:
        set_bytes: One input set.
        own_bytes: The outputs of one set in the problem's precision.
        exact_bytes: The same in float64.
        num_timed: Timed sets.
        in_turn: Whether check sets are drawn one after the other into one place. Else all lie
            side by side, those of a verification behind those of the search.
    """

    set_bytes: int
    own_bytes: int
    exact_bytes: int
    num_timed: int
    in_turn: bool = False

    @classmethod
    def of(
        cls, inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec], room_bytes: int
    ) -> MemoryPlan:
        """Plan for a problem's inputs and outputs.

        Args:
            inputs: Specs of one input set.
            outputs: Specs of its outputs.
            room_bytes: From how much memory on check sets are drawn in turn.
        """
        set_bytes = max(layout(inputs)[1], ALIGNMENT_BYTES)
        plan = cls(
            set_bytes=set_bytes,
            own_bytes=output_bytes(outputs),
            exact_bytes=output_bytes(outputs, exact=True),
            num_timed=min(max(POOL_BYTES // set_bytes, MIN_TIMED_SETS), MAX_TIMED_SETS),
        )
        return replace(plan, in_turn=plan.total_bytes > room_bytes)

    @property
    def num_places(self) -> int:
        """Check sets that there is room for."""
        return 1 if self.in_turn else 2 * len(CHECK_PLAN)

    @property
    def num_candidates(self) -> int:
        """Candidates that may be judged at a time."""
        return 1 if self.in_turn else 2

    @property
    def inputs_bytes(self) -> int:
        """Size of the shared file of inputs."""
        return self.num_places * self.set_bytes + self.num_timed * self._timed_stride

    @property
    def expected_bytes(self) -> int:
        """Size of the shared file of expected outputs."""
        return self.num_places * (self.own_bytes + self.exact_bytes) + self.own_bytes

    @property
    def outputs_bytes(self) -> int:
        """Size of a candidate's file of outputs: room for a wrong dtype of twice the size."""
        return 2 * self.own_bytes + 4096

    @property
    def total_bytes(self) -> int:
        """Shared memory of a session with its candidates."""
        outputs = self.num_candidates * self.outputs_bytes
        return self.inputs_bytes + self.expected_bytes + outputs

    def check_base(self, number: int) -> int:
        """Base of a check set; those of a verification follow those of the search."""
        return number * self.set_bytes

    def expected_at(self, number: int) -> tuple[int, int]:
        """Where a check set's float64 and own outputs lie."""
        start = number * (self.own_bytes + self.exact_bytes)
        return start, start + self.exact_bytes

    @property
    def timed_expected_at(self) -> int:
        """Where the reference writes the output of a timed call."""
        return self.num_places * (self.own_bytes + self.exact_bytes)

    @property
    def _timed_stride(self) -> int:
        return self.set_bytes + SHIFT_STEPS * ALIGNMENT_BYTES

    def timed_bases(
        self, count: int, rng: np.random.Generator, last: Sequence[int] = ()
    ) -> list[int]:
        """Choose bases for timed sets: which ones, in what order and how shifted is random.

        Args:
            count: How many, at most `num_timed`.
            rng: Source of the choice.
            last: Bases in use: left alone where enough others are free.
        """
        start = self.num_places * self.set_bytes
        taken = {(base - start) // self._timed_stride for base in last}
        free = [slot for slot in range(self.num_timed) if slot not in taken]
        slots = rng.permutation(free if len(free) >= count else self.num_timed)[:count]
        shifts = rng.integers(0, SHIFT_STEPS, size=count)
        return [
            start + int(slot) * self._timed_stride + int(shift) * ALIGNMENT_BYTES
            for slot, shift in zip(slots, shifts, strict=True)
        ]
