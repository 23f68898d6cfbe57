"""What the ladder needs of a device: processes for one candidate, a check, and a clock.

The CPU's is `evaluator.referee.cpu`, a GPU's `evaluator.referee.cuda.arena`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar

from evaluator.gate import Gate
from evaluator.referee.checking import Accuracy
from evaluator.referee.effort import Effort
from evaluator.referee.timing import Block

__all__ = ["Arena", "Process", "Watch", "Weighted", "published_weights"]


class Process(Protocol):
    """A process in which a candidate's configurations run."""

    @property
    def isolation(self) -> str:
        """Protections that hold for it."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything still."""
        ...

    def open(self, index: int, source: str) -> None:
        """Build and construct a configuration."""
        ...

    def load_weights(self, index: int) -> bool:
        """Load the published weights; False where parameters do not match the reference's."""
        ...

    def require_idle(self) -> None:
        """Fail a candidate that works while nothing is asked of it."""
        ...

    def require_inputs_unchanged(self) -> None:
        """Fail a candidate that wrote to its inputs."""
        ...

    def stop(self) -> None:
        """Halt it until it is asked something again."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...

    def end(self) -> None:
        """End it with everything it started."""
        ...


class Watch(Protocol):
    """Times the configurations of one process against the reference, under the timing gate."""

    def race(self, indices: Sequence[int]) -> tuple[int, dict[int, float]]:
        """Halve configurations by short legs; the winner, and the ms per call of each."""
        ...

    def blocks(self, index: int, latency_ms: float, effort: Effort) -> list[Block]:
        """Time a configuration in ABBA blocks and check what it returned meanwhile."""
        ...


P = TypeVar("P", bound=Process)


class Arena(Protocol[P]):
    """One problem on one device, for one candidate.

    Attributes:
        gate: The device's timing gate.
        one_process: Whether a search times a candidate in the process that has checked it. A
            fresh process is ended as soon as it was timed then, since memory is scarce.
        builds_s: Seconds after which configurations that are not built yet are left out.
        verify_effort: How much a verification measures in each of its processes.
    """

    gate: Gate
    one_process: bool
    builds_s: float
    verify_effort: Effort

    def build_folder(self) -> Path:
        """Make an empty private folder for build artefacts."""
        ...

    def prepare(self, build: Path, sources: Sequence[str]) -> None:
        """Build ahead what may be built beside each other; what fails will fail again."""
        ...

    def process(self, build: Path, *, timed: bool) -> P:
        """Start a process, to be timed or to build and check."""
        ...

    def look(self, process: P, index: int) -> Accuracy:
        """Check one configuration on one secret set, the same for all of them."""
        ...

    def check(self, process: P, index: int) -> Accuracy:
        """Check one configuration on every secret set."""
        ...

    def weights(self, *, hidden: bool) -> AbstractContextManager[object]:
        """Keep the hidden weights, or those as constructed, published for the block."""
        ...

    def load_hidden(self, process: P, index: int) -> None:
        """Let a configuration load the hidden weights, where the problem has any."""
        ...

    def timing(self) -> AbstractContextManager[None]:
        """Hold what memory timing needs beside the process, for the block around the gate's."""
        ...

    def furnish(self, process: P) -> None:
        """Give a process the memory that timing it needs, before the gate is taken."""
        ...

    def watch(self, process: P) -> Watch:
        """Make a clock for a process that has opened what is to be timed."""
        ...

    def census(self, process: P, index: int, calls: int) -> dict[str, Any]:
        """Ask for facts about a configuration's kernels."""
        ...


class Weighted(Protocol):
    """A session as far as its weights go."""

    @property
    def weights_lock(self) -> Lock:
        """Held by whoever publishes weights or lets a candidate load them."""
        ...

    def publish_weights(self, *, hidden: bool) -> None:
        """Set the weights as constructed, or the hidden ones; to be called with the lock."""
        ...


@contextmanager
def published_weights(session: Weighted, *, hidden: bool) -> Iterator[None]:
    """Publish the weights as constructed for the block, and the hidden ones after it.

    Args:
        session: Whose reference computes with them.
        hidden: Whether the hidden ones are to stay: nothing is done then.
    """
    if hidden:
        yield
        return
    with session.weights_lock:
        session.publish_weights(hidden=False)
        try:
            yield
        finally:
            session.publish_weights(hidden=True)
