"""Memory of a GPU: what judging a problem takes of it, and who may have how much at a time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evaluator.referee.inputs import CHECK_PLAN, output_bytes
from evaluator.values import DEVICE_ALIGNMENT_BYTES
from evaluator.wire import ValueSpec, layout
from problems.errors import ProblemError

__all__ = ["CONTEXT_BYTES", "STOCK_SETS", "Admission", "CudaPlan", "require_fit"]

GIB = 1 << 30
CONTEXT_BYTES = 768 << 20
"""A process's context with torch's and Triton's modules, and the buffer that flushes the cache."""
TIMED_BYTES = 3 * GIB // 2
MAX_TIMED_SETS = 64
STOCK_SETS = 4
PATIENCE_S = 20.0
SHARED_SHARE = 9
"""A problem whose sets take more than a ninth of the memory has one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaPlan:
    """How a problem's sets lie in a GPU's memory; all numbers in bytes unless stated.

    Attributes:
        set_bytes: One input set.
        own_bytes: The outputs of one set in the problem's precision.
        exact_bytes: The same in float64.
        num_timed: Timed sets, at most as many as a leg has calls.
        in_turn: Whether there is room for one check set at a time (`turns`), and for one timed
            set that takes its place. Else all check sets lie side by side, those of a
            verification behind those of the search, and timed sets are mixed from a stock.
    """

    set_bytes: int
    own_bytes: int
    exact_bytes: int
    num_timed: int
    in_turn: bool

    @classmethod
    def of(
        cls, inputs: Sequence[ValueSpec], outputs: Sequence[ValueSpec], memory_bytes: int
    ) -> CudaPlan:
        """Plan for a problem's inputs and outputs.

        Args:
            inputs: Specs of one input set.
            outputs: Specs of its outputs.
            memory_bytes: All of the GPU's memory.
        """
        size = max(layout(inputs, DEVICE_ALIGNMENT_BYTES)[1], DEVICE_ALIGNMENT_BYTES)
        own, exact = output_bytes(outputs), output_bytes(outputs, exact=True)
        fitting = TIMED_BYTES // (size + own)
        plan = cls(
            set_bytes=size,
            own_bytes=own,
            exact_bytes=exact,
            num_timed=min(max(fitting, 2), MAX_TIMED_SETS),
            in_turn=False,
        )
        if plan.session_bytes <= memory_bytes // SHARED_SHARE:
            return plan
        return cls(set_bytes=size, own_bytes=own, exact_bytes=exact, num_timed=1, in_turn=True)

    @property
    def session_bytes(self) -> int:
        """What the reference's process keeps while nothing is asked of it."""
        if self.in_turn:
            return CONTEXT_BYTES
        checks = 2 * len(CHECK_PLAN) * (self.set_bytes + self.own_bytes + self.exact_bytes)
        timed = self.num_timed * (self.set_bytes + self.own_bytes) + STOCK_SETS * self.set_bytes
        return checks + timed + CONTEXT_BYTES

    @property
    def candidate_bytes(self) -> int:
        """What a candidate's process and its copies of inputs take."""
        calls = self.num_timed
        rooms = self.set_bytes * (1 if self.in_turn else 1 + calls)
        return rooms + (calls + 2) * self.own_bytes + CONTEXT_BYTES

    @property
    def waiting_bytes(self) -> int:
        """What a candidate's process takes until it is its turn, or until it is timed."""
        return CONTEXT_BYTES + self.set_bytes + (0 if self.in_turn else 2 * self.own_bytes)

    @property
    def peak_bytes(self) -> int:
        """What judging one candidate takes at most: the reference in float64 beside it."""
        working = 3 * self.set_bytes + 2 * self.own_bytes + 2 * self.exact_bytes
        return self.session_bytes + working + self.candidate_bytes


def require_fit(label: str, plan: CudaPlan, intermediate_bytes: int, available: int) -> int:
    """Require memory of the GPU for a problem; return what judging a candidate takes of it.

    Args:
        label: Of the problem.
        plan: How its sets lie.
        intermediate_bytes: The largest value that the reference computes on the way.
        available: What the GPU has.

    Raises:
        ProblemError: There is less.
    """
    needed = plan.peak_bytes + 2 * intermediate_bytes
    if needed > available:
        raise ProblemError(
            f"problem {label} needs {needed} bytes of the GPU's memory, {available} are "
            "available: use a smaller scale, or a larger GPU"
        )
    return needed


class Admission:
    """Hands out a GPU's memory; whoever finds too little waits.

    Who came first has it first, but for 20 s lets pass whoever fits beside those that have it now:
    a small problem need not wait for a large one's turn to be opened.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Start with all of it free.

        Args:
            limit_bytes: What there is to hand out; a single one may have more.
        """
        self._limit_bytes = limit_bytes
        self._taken: list[int] = []
        self._waiting: deque[float] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def reserved(self, num_bytes: int) -> Iterator[None]:
        """Hold some memory for the block."""
        with self._changed:
            came_s = time.monotonic()
            self._waiting.append(came_s)
            try:
                self._changed.wait_for(lambda: self._may_go(came_s) and self._fits(num_bytes))
                self._taken.append(num_bytes)
            finally:
                self._waiting.remove(came_s)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._taken.remove(num_bytes)
                self._changed.notify_all()

    def has_impatient(self) -> bool:
        """Tell whether somebody has waited so long that nobody else is let pass."""
        with self._changed:
            return bool(self._waiting) and self._is_impatient()

    def _may_go(self, came_s: float) -> bool:
        """Whether nobody has waited longer, or the first one not yet too long."""
        return came_s == self._waiting[0] or not self._is_impatient()

    def _is_impatient(self) -> bool:
        """Whether the first one has waited too long."""
        return time.monotonic() - self._waiting[0] >= PATIENCE_S

    def _fits(self, num_bytes: int) -> bool:
        return not self._taken or sum(self._taken) + num_bytes <= self._limit_bytes
