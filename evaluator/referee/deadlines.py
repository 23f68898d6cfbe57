"""How long each step may take: whoever is later has failed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from archives.candidate import Language, detect_language

__all__ = ["Deadlines"]

_CUDA_BUILD_S = 240.0
"""On a GPU: nvcc takes a minute for what includes torch's headers, several at a time longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds that each step may take.

    Attributes:
        start_s: The zygote's imports.
        spawn_s: Forking a worker.
        context_s: Creating a context on a GPU, and mapping memory of the referee there.
        problem_s: Each step of the reference worker.
        build_s: Building and constructing a candidate.
        triton_s: The same of a configuration of a Triton program, which no host compiler builds,
            for each four of its kernels.
        builds_s: Building all configurations of a candidate, what is compiled ahead left aside; as
            soon as one is built, those that come later than this are left out.
        call_s: Whatever else is asked of a candidate: taking weights, giving outputs, the census.
        check_s: A call that is checked; None: `call_s`.
        time_s: A leg that is timed; None: `call_s`.
        call_factor: How often the reference's time a call may take, on top of each of the three.
    """

    start_s: float = 120.0
    spawn_s: float = 20.0
    context_s: float = 240.0
    problem_s: float = 120.0
    build_s: float = 60.0
    triton_s: float = 45.0
    builds_s: float = 60.0
    call_s: float = 10.0
    check_s: float | None = None
    time_s: float | None = None
    call_factor: float = 30.0

    @classmethod
    def of(
        cls,
        device: str,
        *,
        build_s: float | None = None,
        check_s: float | None = None,
        time_s: float | None = None,
    ) -> Deadlines:
        """Return those of a device, with what a user sets; None: as usual there.

        Args:
            device: Kind of device, "cuda" or "cpu".
            build_s: Building and constructing a candidate, whatever it is written in.
            check_s: A call that is checked.
            time_s: A leg that is timed.
        """
        usual = cls(build_s=_CUDA_BUILD_S) if device == "cuda" else cls()
        if build_s is not None:
            usual = replace(usual, build_s=build_s, triton_s=build_s)
        return replace(usual, check_s=check_s, time_s=time_s)

    def of_build(self, source: str) -> float:
        """Return the seconds that building a configuration may take."""
        if detect_language(source) is Language.TRITON:
            return min(self.triton_s * max(1, source.count("@triton.jit") / 4), self.build_s)
        return self.build_s

    def of_calls(self, calls: int, reference_ms: float) -> float:
        """Return the seconds that some calls of a candidate may take, or what comes of them."""
        return self._of(self.call_s, calls, reference_ms)

    def of_check(self, reference_ms: float) -> float:
        """Return the seconds that a call may take which is checked."""
        return self._of(self.check_s, 1, reference_ms)

    def of_leg(self, calls: int, reference_ms: float) -> float:
        """Return the seconds that a leg of some calls may take."""
        return self._of(self.time_s, calls, reference_ms)

    def _of(self, allowance_s: float | None, calls: int, reference_ms: float) -> float:
        first_s = self.call_s if allowance_s is None else allowance_s
        return first_s + self.call_factor * calls * reference_ms / 1000
