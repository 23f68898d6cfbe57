"""What a running engine lets people see; plain counters, written by the engine alone."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Monitor", "ProblemView"]


@dataclass(slots=True, kw_only=True)
class ProblemView:
    """One problem as people see it.

    Attributes:
        label: Such as "1/23 Softmax".
        stage: Such as "generation 1", "verified", "skipped".
        is_done: Whether nothing more will happen to it.
        speedup: Best so far, of what the search climbs by; None: nothing correct yet.
        is_matched: Whether `speedup` is one over torch's fastest setting that is no less accurate.
        is_verified: Whether `speedup` comes from a verification.
        coverage: Share of the cells that are occupied, 0 to 1.
    """

    label: str
    stage: str = "waiting"
    is_done: bool = False
    speedup: float | None = None
    is_matched: bool = False
    is_verified: bool = False
    coverage: float = 0.0


@dataclass(slots=True, kw_only=True)
class Monitor:
    """Counters of this sitting of a run.

    Attributes:
        attempts: Proposals recorded.
        evaluations: Search verdicts recorded.
        verifications: Verifications recorded.
        evaluator_failures: Times that the evaluator failed.
        calls: Calls to language models that have ended.
        calls_under_way: Calls that have not ended yet.
        note: What people should know of the host; "" where nothing.
        steps_done: Generations of problems that are finished, of `steps`.
        steps: Generations of problems in the whole run.
        problems: Views by problem key.
    """

    attempts: int = 0
    evaluations: int = 0
    verifications: int = 0
    evaluator_failures: int = 0
    calls: int = 0
    calls_under_way: int = 0
    note: str = ""
    steps_done: int = 0
    steps: int = 0
    problems: dict[str, ProblemView] = field(default_factory=dict)
