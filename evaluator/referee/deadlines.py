"""How long each step may take: whoever is later has failed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Deadlines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds that each step may take.

    Attributes:
        start_s: The zygote's imports.
        spawn_s: Forking a worker.
        problem_s: Each step of the reference worker.
        build_s: Building and constructing a candidate.
        call_s: One call of a candidate, besides `call_factor` times the reference's time.
        call_factor: How often the reference's time a call may take.
    """

    start_s: float = 120.0
    spawn_s: float = 20.0
    problem_s: float = 120.0
    build_s: float = 60.0
    call_s: float = 10.0
    call_factor: float = 30.0

    def of_calls(self, calls: int, reference_ms: float) -> float:
        """Return the seconds that some calls of a candidate may take."""
        return self.call_s + self.call_factor * calls * reference_ms / 1000
