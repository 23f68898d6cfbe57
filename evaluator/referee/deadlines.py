"""How long each step may take: whoever is later has failed."""

from __future__ import annotations

from dataclasses import dataclass

from archives.candidate import Language, detect_language

__all__ = ["Deadlines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds that each step may take.

    Attributes:
        start_s: The zygote's imports.
        spawn_s: Forking a worker.
        problem_s: Each step of the reference worker.
        build_s: Building and constructing a candidate.
        triton_s: The same of a configuration of a Triton program, which no host compiler builds,
            for each four of its kernels.
        builds_s: Building all configurations of a candidate, what is compiled ahead left aside; as
            soon as one is built, those that come later than this are left out.
        call_s: One call of a candidate, besides `call_factor` times the reference's time.
        call_factor: How often the reference's time a call may take.
    """

    start_s: float = 120.0
    spawn_s: float = 20.0
    problem_s: float = 120.0
    build_s: float = 60.0
    triton_s: float = 45.0
    builds_s: float = 60.0
    call_s: float = 10.0
    call_factor: float = 30.0

    def of_build(self, source: str) -> float:
        """Return the seconds that building a configuration may take."""
        if detect_language(source) is Language.TRITON:
            return min(self.triton_s * max(1, source.count("@triton.jit") / 4), self.build_s)
        return self.build_s

    def of_calls(self, calls: int, reference_ms: float) -> float:
        """Return the seconds that some calls of a candidate may take."""
        return self.call_s + self.call_factor * calls * reference_ms / 1000
