"""A candidate's process on a GPU as the referee sees it: requests in, claims out."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from archives.evaluation import Status
from evaluator.processes import descendants, folder_bytes
from evaluator.referee.candidate_process import (
    EXIT_PATIENCE_S,
    MAX_BUILD_BYTES,
    forged,
    over_disk,
    over_memory,
    overlaps,
)
from evaluator.referee.cuda.reference import SETTLING_S, Numbers, Room
from evaluator.referee.cuda.session import CudaSession
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.failure import CandidateFailed, failure_of_exit, failure_of_reply
from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from evaluator.wire import ITEM_BYTES, ChannelClosed, FrameError, ValueSpec
from problems.errors import DeviceCrowded, EvaluatorError, EvoKernelError, WorkerDied, WorkerTimeout

__all__ = ["CHECK_ROOM", "TIMED_ROOM", "CudaCandidate", "CudaOutputs", "Leg", "unreadable"]

CHECK_ROOM = "check"
TIMED_ROOM = "timed"
_HANDLE_DIGITS = frozenset("0123456789abcdef")


class CudaOutputs:
    """What a candidate says that it returned from one call.

    Attributes:
        specs: Shapes, dtypes and strides.
        overlapping: Whether each tensor shares memory between its own elements.
        is_tuple: Whether the model returned a tuple.
        exported: Where the reference's process finds each tensor.
        readable: Whether all of them can be found.

    Args:
        reply: What its process sent.
        rooms: Those that it was given, by name.
    """

    def __init__(self, reply: object, rooms: Mapping[str, Room]) -> None:
        try:
            assert isinstance(reply, dict)
            data = reply["outputs"]
            self.specs = [ValueSpec.from_json(item) for item in data]
            self.exported = [
                {**replace(spec, name="").to_json(), **_place(item, rooms)}
                for spec, item in zip(self.specs, data, strict=True)
            ]
        except (AssertionError, KeyError, TypeError, ValueError, FrameError) as error:
            raise forged(f"the description of the outputs is malformed: {error}") from error
        self.is_tuple = reply.get("tuple") is True
        self.overlapping = [overlaps(spec.shape, list(spec.stride)) for spec in self.specs]
        # Reading at an odd address would break the context of whoever reads.
        self.readable = all(
            spec.numel == 0
            or (
                (item["room"] is not None or _is_handle(item["handle"]))
                and spec.offset % ITEM_BYTES[spec.dtype] == 0
            )
            for spec, item in zip(self.specs, self.exported, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A leg of a candidate.

    Attributes:
        times_ms: What its events say that each call took.
        wall_ms: The referee's wall.
        calls: What each call returned.
    """

    times_ms: list[float]
    wall_ms: float
    calls: list[CudaOutputs]


class CudaCandidate:
    """One process in which a candidate's configurations run."""

    def __init__(
        self, session: CudaSession, spawner: Spawner, plan: WorkerPlan, deadlines: Deadlines
    ) -> None:
        """Fork it, let it create its context, and give it a room for one input set.

        Args:
            session: The problem.
            spawner: Forks and ends it.
            plan: Its cores, threads, memory limit and build folder.
            deadlines: What each request may take.
        """
        self._session = session
        self._deadlines = deadlines
        self._build = plan.build if plan.build_writable else None
        self._queued_calls = 0
        self._rooms: dict[str, Room] = {}
        page = session.pages.take()
        self._page: int | None = page
        memory = (session.state, session.signals)
        try:
            self._worker: Worker = spawner.spawn(replace(plan, memory=memory))
        except EvaluatorError:
            session.pages.give(page)
            raise
        try:
            self.give_room(CHECK_ROOM, 1)
            self._ask("signals", deadlines.context_s, Status.RUNTIME_ERROR, page=page)
        except CandidateFailed as failure:
            # Nothing of the candidate was loaded yet.
            self.end()
            is_crowded = failure.status is Status.OUT_OF_MEMORY
            kind = DeviceCrowded if is_crowded else EvaluatorError
            raise kind(f"a process got no context on the GPU: {failure.log}") from failure
        except EvoKernelError:
            # The reference's process has no memory left for its room, or has ended.
            self.end()
            raise

    @property
    def isolation(self) -> str:
        """Protections that hold for it."""
        return self._worker.isolation

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything still."""
        return not self._worker.ended

    @property
    def worker(self) -> Worker:
        """Its process."""
        return self._worker

    def give_room(self, name: str, sets: int) -> Room:
        """Give it a room for some sets, unless it has one of that name."""
        if name not in self._rooms:
            room = self._rooms[name] = self._session.reference.room(sets)
            fields = {"room": name, "handle": room.handle, "offset": room.offset}
            fields["bytes"] = room.num_bytes
            self._ask("attach", self._deadlines.context_s, Status.RUNTIME_ERROR, **fields)
        return self._rooms[name]

    def open(self, index: int, source: str) -> None:
        """Build and construct a configuration, and compile what its first call would compile.

        Args:
            index: Its number in later requests.
            source: Text of the module, the configuration written in.
        """
        self._ask(
            "open",
            self._deadlines.of_build(source),
            Status.BUILD_ERROR,
            index=index,
            source=source,
            **self._session.opened.for_candidates(),
            seed=self._session.construction_seed,
            numbers=list(self._session.reference.numbers),
        )
        if self._build is not None and folder_bytes(self._build) > MAX_BUILD_BYTES:
            log = f"the build folder holds over {MAX_BUILD_BYTES} bytes: write less."
            raise CandidateFailed(Status.BUILD_ERROR, "build_too_large", log)

    def load_weights(self, index: int) -> bool:
        """Load the published weights; False where parameters do not match the reference's."""
        reply = self._ask("weights", self._deadlines.call_s, Status.RUNTIME_ERROR, index=index)
        return reply.get("loaded") is True

    def forget(self) -> None:
        """Let it give back the memory of what it returned last; it is halted again."""
        try:
            self._ask("forget", self._deadlines.call_s, Status.RUNTIME_ERROR)
        finally:
            self.stop()

    @property
    def check_room(self) -> Room:
        """Where check sets are copied for it."""
        return self._rooms[CHECK_ROOM]

    def call(self, index: int, numbers: Numbers) -> CudaOutputs:
        """Run one call on the set in its room, free memory poisoned before."""
        deadline = self._deadlines.of_check(self._session.alone_ms)
        fields = {"index": index, "numbers": list(numbers)}
        return self._outputs(self._ask("call", deadline, Status.RUNTIME_ERROR, **fields))

    def leg(self, index: int, room: str, numbers: Sequence[Numbers]) -> Leg:
        """Time one call for each set in a room; the process is halted before and after."""
        deadline = self._deadlines.of_leg(len(numbers), self._session.alone_ms)
        sets = [list(one) for one in numbers]
        fields = {"index": index, "room": room, "numbers": sets}
        self._ask("look_up", deadline, Status.RUNTIME_ERROR, **fields)
        self._worker.stop()
        time.sleep(SETTLING_S)
        start = perf_counter()
        reply = self._ask("leg", deadline, Status.RUNTIME_ERROR, **fields)
        wall_ms = 1000 * (perf_counter() - start)
        self._worker.stop()
        times = _times(reply, len(numbers))
        calls = [self._outputs(item) for item in _calls(reply, len(numbers))]
        return Leg(times_ms=times, wall_ms=wall_ms, calls=calls)

    def queue(
        self, index: int, room: str, numbers: Sequence[Numbers], ticket: int, patience_s: float
    ) -> list[CudaOutputs] | None:
        """Let it queue a sealed leg: one call for each set in a room, behind a ticket.

        Args:
            index: Number of the configuration; unused where there are no calls.
            room: Name of the room; its contents come later.
            numbers: Plain numbers of each set.
            ticket: What the leg waits for.
            patience_s: How long that may take: what waits for the device never ends by itself.

        Returns:
            What each call will have returned; None: it is not queued, and `queued` tells once the
            ticket was let go.
        """
        self._worker.resume()
        self._queued_calls = len(numbers)
        fields = {"index": index, "room": room, "numbers": [list(one) for one in numbers]}
        with self._failing("queue", self._deadlines.call_s):
            self._worker.post("queue", self._deadlines.call_s, ticket=ticket, **fields)
        if not self._worker.answered(patience_s):
            return None
        calls = self.queued()
        self._worker.stop()
        return calls

    def queued(self) -> list[CudaOutputs]:
        """Return what each call of the leg that was queued last returns."""
        deadline = self._deadlines.of_leg(self._queued_calls, self._session.alone_ms)
        with self._failing("queue", deadline):
            reply = self._worker.answer("queue", deadline)
        self._require_ok(reply, Status.RUNTIME_ERROR)
        return [self._outputs(item) for item in _calls(reply, self._queued_calls)]

    @property
    def answered(self) -> bool:
        """Whether a reply of it is there that was not read yet."""
        return self._worker.answered(0.0)

    @property
    def page(self) -> int:
        """Number of its page of the signals."""
        assert self._page is not None, "the process was ended"
        return self._page

    def ship(self, call: int) -> CudaOutputs:
        """Let it copy the outputs of a call of its last leg."""
        deadline = self._deadlines.of_calls(1, self._session.alone_ms)
        return self._outputs(self._ask("ship", deadline, Status.RUNTIME_ERROR, call=call))

    def census(self, step: str, calls: int = 0, **fields: object) -> dict[str, Any]:
        """Take a step of the census (`evaluator.wire`): descriptors, on which no verdict rests."""
        # Two calls more tell how much what it returns differs from one to the other.
        deadline = self._deadlines.of_calls(calls + 2, self._session.alone_ms)
        return self._ask(step, deadline, Status.RUNTIME_ERROR, calls=calls, **fields)

    def require_inputs_unchanged(self) -> None:
        """Nothing is left to be done: each call's inputs were compared after it."""

    def require_idle(self) -> None:
        """Fail a candidate that left processes behind."""
        if len(descendants(self._worker.pid)) > 1:
            log = "the candidate left a process running: end every process before returning."
            raise CandidateFailed(Status.TIMING_MISMATCH, "background_process", log)

    def stop(self) -> None:
        """Halt it until it is asked something again.

        Raises:
            CandidateFailed: It left processes behind, which nobody halts.
        """
        self._worker.stop()
        if not self._worker.ended:
            self.require_idle()

    def resume(self) -> None:
        """Let it go on."""
        self._worker.resume()

    def end(self) -> None:
        """End it with everything it started, and free its rooms."""
        self._worker.end()
        if self._page is not None:
            self._session.pages.give(self._page)
            self._page = None
        rooms, self._rooms = list(self._rooms.values()), {}
        self._session.reference.clear(rooms)

    def _outputs(self, reply: object) -> CudaOutputs:
        return CudaOutputs(reply, self._rooms)

    def _ask(self, op: str, timeout_s: float, status: Status, **fields: object) -> dict[str, Any]:
        self._worker.resume()
        with self._failing(op, timeout_s):
            reply = self._worker.request(op, timeout_s, **fields)
        self._require_ok(reply, status)
        return reply

    @contextmanager
    def _failing(self, op: str, timeout_s: float) -> Iterator[None]:
        """Turn what goes wrong with its channel into a failure of the candidate."""
        try:
            yield
        except WorkerTimeout as error:
            self._worker.end()
            log = f"the candidate took over {timeout_s:.0f} s in step {op!r}: it may hang."
            hangs = CandidateFailed(Status.TIMEOUT, f"timeout_in_{op}", log)
            raise _over_limit(self._worker) or hangs from error
        except ChannelClosed as error:
            code = self._worker.end(patience_s=EXIT_PATIENCE_S)
            if self._worker.lost:
                raise WorkerDied(f"the zygote and its workers ended in step {op!r}") from error
            raise _over_limit(self._worker) or failure_of_exit(code) from error
        except FrameError as error:
            self._worker.end()
            raise forged(str(error)) from error

    def _require_ok(self, reply: Mapping[str, Any], status: Status) -> None:
        if not reply["ok"]:
            failure = failure_of_reply(reply, status)
            if failure.reason == "cuda_error":
                self._worker.end()  # After it a context computes nothing any more.
            raise failure


def unreadable() -> CandidateFailed:
    """Return what becomes of outputs that nobody else can read where they lie."""
    log = (
        "an output lies in memory that no other process can read, or at no multiple of its element "
        "size: return tensors of torch's own allocator, or inputs."
    )
    return CandidateFailed(Status.RUNTIME_ERROR, "unreadable_output", log)


def _over_limit(worker: Worker) -> CandidateFailed | None:
    """What a process that took too much of the host was ended for; None: not for that."""
    if worker.over_memory:
        return over_memory()
    return over_disk() if worker.over_disk else None


def _place(item: Mapping[str, Any], rooms: Mapping[str, Room]) -> dict[str, object]:
    """Where a candidate says that a tensor lies; rooms by their numbers."""
    room = rooms.get(str(item["room"]))
    return {
        "handle": str(item["handle"]),
        "allocation": _allocation(item["allocation"]),
        "room": None if room is None else room.number,
    }


def _allocation(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 64:
        raise ValueError(f"{number!r:.40} is no number of an allocation")
    return number


def _is_handle(text: str) -> bool:
    return len(text) == 128 and set(text) <= _HANDLE_DIGITS


def _times(reply: Mapping[str, Any], calls: int) -> list[float]:
    times = reply.get("times_ms")
    if (
        not isinstance(times, list)
        or len(times) != calls
        or any(type(t) is not float or not math.isfinite(t) or t < 0 for t in times)
    ):
        raise forged("the times of a leg are malformed")
    return times


def _calls(reply: Mapping[str, Any], calls: int) -> list[object]:
    found = reply.get("calls")
    if not isinstance(found, list) or len(found) != calls:
        raise forged("the outputs of a leg are malformed")
    return found
