"""A verdict by KernelBench's rules, for comparison with published numbers alone."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KernelBenchVerdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBenchVerdict:
    """What KernelBench would say of a candidate. Its process may have made it up.

    Attributes:
        correct: Right within KernelBench's tolerance in each of its trials, and timed.
        log: Why not.
        kernel_ms: Mean time of a call of the candidate, in ms, on a GPU with a cold L2 cache and
            to three digits; None where it is wrong.
        reference_ms: The same of the reference.
        proves_nothing: What passes in all trials without computing anything, such as "zeros": by
            these rules the problem says nothing of a kernel; "" where nothing does.
    """

    correct: bool
    log: str = ""
    kernel_ms: float | None = None
    reference_ms: float | None = None
    proves_nothing: str = ""

    @property
    def speedup(self) -> float | None:
        """Mean time of the reference over that of the candidate."""
        if self.kernel_ms is None or self.reference_ms is None:
            return None
        return self.reference_ms / self.kernel_ms
