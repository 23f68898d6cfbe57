"""Where the time of judging on a GPU goes: milliseconds of an evaluation, by process and request.

    python benchmarks/cuda_profile.py softmax [--count 5] [--in-flight 1] [--verify]
    python benchmarks/cuda_profile.py layernorm ...
    python benchmarks/cuda_profile.py 21 --scale official ...

The first two judge the distinct kernels of `cuda_rates.py`; a number is that of a problem of level
1, whose first Triton sketch is judged again and again. What is done under the timing gate is so
marked: others wait meanwhile. The evaluation that opens the problem is not counted.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from archives.candidate import Candidate
from benchmarks.cuda_rates import candidates
from evaluator.evaluator import EvaluationRequest, Purpose
from evaluator.gate import Gate
from evaluator.referee.cuda.device import gpu_of
from evaluator.referee.cuda.monitor import Monitor
from evaluator.referee.cuda.station import CudaStation
from evaluator.referee.referee import Referee
from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from operators.sketches.registry import SKETCHES
from problems.catalogue import load_level
from problems.problem import Scale

HELD = "gate"
MOST_LINES = 40


@dataclass(slots=True)
class Tally:
    """How often something was done, and for how long in all."""

    number: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Profile:
    """Adds up what threads do.

    Attributes:
        tallies: By whether it was under the gate, whose it was, and what.
    """

    tallies: defaultdict[tuple[bool, str, str], Tally] = field(
        default_factory=lambda: defaultdict(Tally)
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _here: threading.local = field(default_factory=threading.local)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What this thread does in the block is under the gate."""
        start = time.perf_counter()
        self._here.held = True
        try:
            yield
        finally:
            self._here.held = False
            self.add(HELD, "held", start)

    def add(self, whose: str, what: str, start: float) -> None:
        """Note what began at a reading of the clock, and ends now."""
        seconds = time.perf_counter() - start
        under = bool(getattr(self._here, "held", False))
        with self._lock:
            tally = self.tallies[under, whose, what]
            tally.number += 1
            tally.seconds += seconds

    def told(self, function: Callable[..., Any], whose: str, what: str) -> Callable[..., Any]:
        """Return a function whose calls are noted."""

        def noting(*args: Any, **fields: Any) -> Any:  # noqa: ANN401 - whatever is wrapped
            start = time.perf_counter()
            try:
                return function(*args, **fields)
            finally:
                self.add(whose, what, start)

        return noting


class ProfiledGate(Gate):
    """Tells a profile when it is held."""

    def __init__(self, device: str, profile: Profile) -> None:
        super().__init__(device)
        self._profile = profile

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the device alone; that is noted."""
        with super().exclusive(), self._profile.held():
            yield


def watch(profile: Profile) -> None:
    """Let all workers of this process's referees note their requests, from now on."""
    roles: dict[int, str] = {}
    begun: dict[int, float] = {}
    spawn, post, answer, end = Spawner.spawn, Worker.post, Worker.answer, Worker.end

    def spawned(self: Spawner, plan: WorkerPlan) -> Worker:
        worker: Worker = profile.told(spawn, plan.role, "start")(self, plan)
        roles[id(worker)] = plan.role
        return worker

    def posted(self: Worker, op: str, *args: Any, **fields: Any) -> None:  # noqa: ANN401
        begun[id(self)] = time.perf_counter()
        post(self, op, *args, **fields)

    def answered(self: Worker, op: str, timeout_s: float) -> dict[str, Any]:
        try:
            return answer(self, op, timeout_s)
        finally:
            profile.add(roles.get(id(self), "?"), op, begun[id(self)])

    def ended(self: Worker, **fields: Any) -> int | None:  # noqa: ANN401
        code: int | None = profile.told(end, roles.get(id(self), "?"), "end")(self, **fields)
        return code

    replaced: list[tuple[type, str, Callable[..., Any]]] = [
        (Spawner, "spawn", spawned),
        (Worker, "post", posted),
        (Worker, "answer", answered),
        (Worker, "end", ended),
        (Monitor, "disturbed", profile.told(Monitor.disturbed, "monitor", "look")),
    ]
    for kind, name, function in replaced:
        setattr(kind, name, function)


def requests_of(what: str, count: int, scale: Scale, referee: Referee) -> list[EvaluationRequest]:
    """One request more than are to be counted: the first one opens the problem."""
    if not what.isdigit():
        return candidates(what, count + 1)
    (problem,) = load_level(1, scale, [int(what)])
    graph = referee.graph(problem)
    texts = (sketch.write(problem, graph) for sketch in SKETCHES if sketch.device == "cuda")
    source = next(text for text in texts if text is not None)
    # Distinct, so that each is compiled anew.
    sources = [f"{source}\n# {number}\n" for number in range(count + 1)]
    found = [Candidate.of(problem.key, text) for text in sources]
    return [EvaluationRequest(problem=problem, candidate=one) for one in found]


def main() -> None:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", help="softmax, layernorm, or the id of a problem")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--scale", choices=("official", "small"), default="official")
    parser.add_argument("--verify", action="store_true")
    options = parser.parse_args()
    profile = Profile()
    watch(profile)
    referee = Referee(CudaStation(gate=ProfiledGate(f"cuda-{gpu_of(0).uuid}", profile)))
    try:
        first, *rest = requests_of(options.what, options.count, Scale(options.scale), referee)
        referee.evaluate(first)
        purpose = Purpose.VERIFY if options.verify else Purpose.SEARCH
        profile.tallies.clear()
        start = time.perf_counter()
        with ThreadPoolExecutor(options.in_flight) as threads:
            asked = [replace(request, purpose=purpose) for request in rest]
            verdicts = list(threads.map(referee.evaluate, asked))
        elapsed_s = time.perf_counter() - start
    finally:
        referee.close()
    print(f"{len(verdicts)} in {elapsed_s:.1f} s:", *(f"{v.status} {v.reason}" for v in verdicts))
    lines = sorted(profile.tallies.items(), key=lambda line: -line[1].seconds)
    print(f"{'':5}{'whose':>16} {'what':<16} times  ms, of one evaluation")
    for (under, whose, what), tally in lines[:MOST_LINES]:
        number, ms = tally.number / len(verdicts), 1000 * tally.seconds / len(verdicts)
        print(f"{'gate' if under else '':5}{whose:>16} {what:<16} {number:5.1f} {ms:8.1f}")


if __name__ == "__main__":
    main()
