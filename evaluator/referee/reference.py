"""The reference worker: a trusted process that draws inputs and computes what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeVar

from archives.evaluation import Status
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.spawner import Worker
from evaluator.values import Permitted
from evaluator.wire import CROWDED, ChannelClosed, ValueSpec
from problems.errors import DeviceCrowded, ProblemError, WorkerDied, WorkerTimeout
from problems.problem import Problem

__all__ = ["OpenedProblem", "ReferenceWorker"]

T = TypeVar("T")


class OpenedProblem:
    """What the reference worker found in a problem's module."""

    def __init__(self, reply: dict[str, Any]) -> None:
        self.inputs = _specs(reply["inputs"])
        self.state = _specs(reply["state"])
        self.conversions: dict[str, list[str]] = reply["conversions"]
        self.outputs = _specs(reply["outputs"])
        self.init = reply["init"]
        self.returns_tuple = bool(reply.get("tuple", False))
        self.domains: list[dict[str, Any]] = [
            {"kind": domain["kind"], "upper": domain["upper"]} for domain in reply["domains"]
        ]

    def for_candidates(self) -> dict[str, Any]:
        """Return what a candidate worker is told of the problem when it opens a candidate."""
        return {
            "init": self.init,
            "inputs": [spec.to_json() for spec in self.inputs],
            "state": [spec.to_json() for spec in self.state],
            "conversions": self.conversions,
            "outputs": [spec.to_json() for spec in self.outputs],
        }


class ReferenceWorker:
    """Requests to a reference worker; a refusal says something about the problem."""

    def __init__(self, worker: Worker, problem: Problem, deadlines: Deadlines) -> None:
        self.worker = worker
        self._problem = problem
        self._deadlines = deadlines

    def open(self, seed: int, domains: Sequence[dict[str, Any]] | None = None) -> OpenedProblem:
        """Load the problem's module and construct its model.

        Args:
            seed: torch's seed for the construction; candidates construct under the same.
            domains: What another worker has inferred; None: those stated, if any.
        """
        if domains is None:
            domains = [{"kind": d.kind.value, "upper": d.upper} for d in self._problem.domains]
        fields = {"source": self._problem.source, "precision": self._problem.precision}
        return OpenedProblem(self.ask("open", seed=seed, domains=list(domains), **fields))

    def draw(self, base: int, seed: int, variant: str, *, runs: bool) -> bool:
        """Fill a set; False where the inputs' domains permit no such variant."""
        reply = self.ask("draw", base=base, seed=seed, variant=variant, runs=runs)
        return bool(reply.get("applied", True))

    def stock(self, seed: int, sets: int) -> Permitted:
        """Prepare what `mix` draws from; return what the problem's inputs may be."""
        return Permitted.of(self.ask("stock", seed=seed, sets=sets))

    def begin_mix(self, bases: Sequence[int], variants: Sequence[str], seed: int) -> None:
        """Start to fill sets with contents that nobody has seen; `finish_mix` waits for them."""
        self.worker.resume()
        self._post("mix", bases=list(bases), variants=list(variants), seed=seed)

    def finish_mix(self) -> None:
        """Wait until the sets are filled."""
        self._accepted("mix", self._answer("mix"))

    def weights(self, seed: int | None) -> None:
        """Publish parameters and buffers: redrawn, or as constructed for None."""
        self.ask("weights", seed=seed)

    def expect(self, base: int, at: int) -> tuple[ValueSpec, ...]:
        """Compute the float64 outputs of a set."""
        return _specs(self.ask("expect", base=base, at=at)["outputs"])

    def call(self, base: int, at: int) -> tuple[ValueSpec, ...]:
        """Compute the outputs of a set in the problem's own precision."""
        return _specs(self.ask("call", base=base, at=at)["outputs"])

    def leg_ms(self, bases: Sequence[int]) -> float:
        """Time one call for each base: the wall in ms, waking up from a halt included."""
        self.worker.stop()
        start = perf_counter()
        self.worker.resume()
        self.ask("leg", index=0, bases=list(bases))
        wall = perf_counter() - start
        self.worker.stop()
        return 1000 * wall

    def ship(self, call: int, at: int) -> tuple[ValueSpec, ...]:
        """Write the outputs of one call of the last leg."""
        return _specs(self.ask("ship", call=call, at=at)["outputs"])

    def ask(self, op: str, **fields: object) -> dict[str, Any]:
        """Send a request and return its reply; a refusal is a `ProblemError`."""
        self.worker.resume()
        self._post(op, **fields)
        return self._accepted(op, self._answer(op))

    def _post(self, op: str, **fields: object) -> None:
        deadline = self._deadlines.problem_s
        self._guarded(op, lambda: self.worker.post(op, deadline, **fields))

    def _answer(self, op: str) -> dict[str, Any]:
        return self._guarded(op, lambda: self.worker.answer(op, self._deadlines.problem_s))

    def _guarded(self, op: str, exchange: Callable[[], T]) -> T:
        """Do something on the channel, whose end says something about the problem."""
        label = self._problem.label
        try:
            return exchange()
        except ChannelClosed as error:
            code = self.worker.end(patience_s=1.0)
            raise WorkerDied(
                f"the reference of problem {label} ended in step {op!r} with exit code {code}"
            ) from error
        except WorkerTimeout as error:
            self.worker.end()
            raise WorkerTimeout(
                f"the reference of problem {label} took over {self._deadlines.problem_s:.0f} s "
                f"in step {op!r}: reduce its sizes"
            ) from error

    def _accepted(self, op: str, reply: dict[str, Any]) -> dict[str, Any]:
        label = self._problem.label
        if not reply["ok"]:
            crowded = op != "open" or reply.get("reason") == CROWDED
            if reply.get("status") == Status.OUT_OF_MEMORY and crowded:
                # It fits, or it would not be open, or nobody can tell: others have the memory now.
                raise DeviceCrowded(
                    f"problem {label} found no memory in step {op!r}: others have it at the moment"
                )
            log = " ".join(str(reply.get("log", "")).split())
            reason = reply.get("reason", "no reason")
            raise ProblemError(f"problem {label} fails in step {op!r} ({reason}): {log}")
        return reply


def _specs(data: Sequence[object]) -> tuple[ValueSpec, ...]:
    return tuple(ValueSpec.from_json(item) for item in data)
