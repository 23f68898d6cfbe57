"""A candidate's process as the referee sees it: requests in, bytes out, nothing believed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from archives.evaluation import Status
from evaluator.processes import descendants, folder_bytes, is_halted, mapping_facts
from evaluator.referee.arrays import Array, Shaped
from evaluator.referee.deadlines import Deadlines
from evaluator.referee.failure import CandidateFailed, failure_of_exit, failure_of_reply
from evaluator.referee.foreign_memory import Place, with_memory_read
from evaluator.referee.session import Session, row_major
from evaluator.referee.shared_memory import SharedMemory
from evaluator.referee.spawner import Spawner, Worker, WorkerPlan
from evaluator.referee.watchdog import MAX_FOLDER_BYTES
from evaluator.wire import ChannelClosed, FrameError, ValueSpec
from problems.errors import WorkerDied, WorkerTimeout

__all__ = [
    "EXIT_PATIENCE_S",
    "MAX_BUILD_BYTES",
    "CandidateProcess",
    "Outputs",
    "forged",
    "over_memory",
    "overlapping",
    "overlaps",
]

MAX_BUILD_BYTES = MAX_FOLDER_BYTES
IDLE_WINDOWS_S = (0.01, 0.07)
IDLE_CPU_SHARE = 0.25
"""A process with nothing to do uses no CPU time; OpenMP's threads wait passively."""
EXIT_PATIENCE_S = 1.0
HALTING_S = 0.5
"""A halted process stands within a fraction of a millisecond, on a busy host within some."""
_LOOK_AGAIN_S = 0.0001


class Outputs:
    """What a candidate returned from one call, as it lies in shared memory.

    Attributes:
        arrays: The tensors, with the strides that the model itself returned.
        overlapping: Whether each tensor shares memory between its own elements.
        is_tuple: Whether the model returned a tuple.
    """

    def __init__(self, reply: dict[str, Any], memory: SharedMemory) -> None:
        try:
            data = reply["outputs"]
            specs = [ValueSpec.from_json(item) for item in data]
            self.arrays = [
                Array.within(memory.bytes, s.offset, s.shape, row_major(s.shape), s.dtype)
                for s in specs
            ]
            self.overlapping = [
                overlaps(spec.shape, item.get("own_stride"))
                for spec, item in zip(specs, data, strict=True)
            ]
        except (KeyError, TypeError, ValueError, FrameError) as error:
            raise forged(f"the description of the outputs is malformed: {error}") from error
        self.is_tuple = reply.get("tuple") is True


class CandidateProcess:
    """One process in which a candidate's configurations run."""

    def __init__(
        self, session: Session, spawner: Spawner, plan: WorkerPlan, deadlines: Deadlines
    ) -> None:
        """Fork it.

        Args:
            session: The problem.
            spawner: Forks and ends it.
            plan: Its role, cores, threads, memory limit and build folder.
            deadlines: What each request may take.
        """
        self._session = session
        self._deadlines = deadlines
        self._addresses: object = None
        self._strides: object = None
        self._build: Path | None = plan.build if plan.build_writable else None
        self._outputs = SharedMemory("outputs", session.memory.outputs_bytes)
        self._outputs.seal()
        memory = (session.inputs, session.state, self._outputs)
        self._worker: Worker = spawner.spawn(replace(plan, memory=memory))
        self._isolation = with_memory_read(self._worker.isolation, self._worker.pid)

    @property
    def isolation(self) -> str:
        """Protections that hold for it, the referee's look at its memory among them."""
        return self._isolation

    @property
    def alive(self) -> bool:
        """Whether it can be asked anything still."""
        return not self._worker.ended

    def open(self, index: int, source: str) -> None:
        """Build and construct a configuration.

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
        )
        if self._build is not None and folder_bytes(self._build) > MAX_BUILD_BYTES:
            raise over_disk()

    def load_weights(self, index: int) -> bool:
        """Load the published weights; False where parameters do not match the reference's."""
        reply = self._ask("weights", self._deadlines.call_s, Status.RUNTIME_ERROR, index=index)
        return reply.get("loaded") is True

    def call(self, index: int, base: int) -> Outputs:
        """Run one call on an input set, free memory poisoned before."""
        deadline = self._deadlines.of_check(self._session.alone_ms)
        reply = self._ask(
            "call", deadline, Status.RUNTIME_ERROR, index=index, base=base, poison=True
        )
        return Outputs(reply, self._outputs)

    def leg_ms(self, index: int, bases: Sequence[int]) -> float:
        """Time one call for each base: the wall in ms, waking up included.

        The process gets no time before the clock starts nor after it has stopped.
        """
        deadline = self._deadlines.of_leg(len(bases), self._session.alone_ms)
        self._worker.stop()
        start = perf_counter()
        self._worker.resume()
        reply = self._ask("leg", deadline, Status.RUNTIME_ERROR, index=index, bases=list(bases))
        wall = perf_counter() - start
        self.stop()
        self._addresses, self._strides = reply.get("addresses"), reply.get("strides")
        return 1000 * wall

    def places(self, call: int, expected: Sequence[Shaped]) -> list[Place] | None:
        """Say where the outputs of a call of the last leg lie, as the process claims.

        Args:
            call: Number of the call.
            expected: What the outputs must be.

        Returns:
            A place for each output; None where the claim is malformed.

        Raises:
            CandidateFailed: An output repeats elements in memory.
        """
        try:
            addresses = self._addresses[call]  # type: ignore[index]
            strides = self._strides[call]  # type: ignore[index]
            claims = list(zip(addresses, strides, expected, strict=True))
            if any(overlaps(like.shape, stride) for _, stride, like in claims):
                raise overlapping()
            return [Place.of(*claim) for claim in claims]
        except (TypeError, IndexError, KeyError, ValueError, FrameError):
            return None

    def snapshot(self, places: Sequence[Place], parts: Sequence[slice]) -> list[Array] | None:
        """Read parts of outputs out of the halted process.

        It gets no time for that: what is not there yet will not be found.

        Args:
            places: Where the outputs lie.
            parts: Of each output, the flat (row-major) positions that are wanted.

        Returns:
            The parts, flat; None where they cannot be read.
        """
        try:
            return [
                place.read(self._worker.pid, part)
                for place, part in zip(places, parts, strict=True)
            ]
        except (OSError, OverflowError, ValueError):
            return None

    def hold(self, call: int) -> None:
        """Let it keep the outputs of a call of the last leg until it ends."""
        self._worker.resume()
        self._ask("hold", self._deadlines.call_s, Status.RUNTIME_ERROR, call=call)
        self.stop()

    def is_input(self, place: Place) -> bool:
        """Tell whether an output lies in the inputs' memory, as a view of an input does."""
        ranges = mapping_facts(self._worker.pid, "inputs").ranges
        return any(start <= place.address < end for start, end in ranges)

    def ship(self, call: int) -> tuple[Outputs, float]:
        """Fetch the outputs of one call of the last leg, and the ms that it took."""
        deadline = self._deadlines.of_calls(1, self._session.alone_ms)
        self._worker.resume()
        start = perf_counter()
        reply = self._ask("ship", deadline, Status.RUNTIME_ERROR, call=call, at=0)
        wall = perf_counter() - start
        self.stop()
        return Outputs(reply, self._outputs), 1000 * wall

    def census(self, index: int, base: int, calls: int) -> dict[str, Any]:
        """Ask for facts about its kernels; believed only as descriptors, never for a verdict."""
        deadline = self._deadlines.of_calls(4 * calls, self._session.alone_ms)
        self._worker.resume()
        return self._ask(
            "census", deadline, Status.RUNTIME_ERROR, index=index, base=base, calls=calls
        )

    def require_inputs_unchanged(self) -> None:
        """Fail a candidate that wrote to its inputs: the kernel knows each page."""
        facts = mapping_facts(self._worker.pid, "inputs")
        if facts.written_bytes or facts.mapped_bytes < self._session.inputs.size:
            log = "forward wrote to its inputs: write to a tensor of its own instead."
            raise CandidateFailed(Status.MUTATED_INPUT, "mutated_input", log)

    def require_idle(self) -> None:
        """Fail a candidate that works while nothing is asked of it, or left processes behind."""
        self.stop()
        self._worker.resume()
        before = _cpu_s(self._worker.pid)
        # The kernel counts whole ticks: a first look may catch one by chance, a second does not.
        watched_s = 0.0
        for window_s in IDLE_WINDOWS_S:
            time.sleep(window_s)
            watched_s += window_s
            if _cpu_s(self._worker.pid) - before <= IDLE_CPU_SHARE * watched_s:
                return
        log = "a thread of the candidate works between calls: finish all work in forward."
        raise CandidateFailed(Status.TIMING_MISMATCH, "background_thread", log)

    def stop(self) -> None:
        """Halt it until it is asked something again.

        A signal halts the process alone, not what it has started: a child could compute while
        another side is timed, even in its parent's memory. So a halted candidate has none.

        Raises:
            CandidateFailed: It has left a process running.
        """
        self._worker.stop()
        if self._worker.ended:
            return
        self._require_halted()
        if len(descendants(self._worker.pid)) > 1:
            log = "the candidate left a process running: end every process before returning."
            raise CandidateFailed(Status.TIMING_MISMATCH, "background_process", log)

    def _require_halted(self) -> None:
        """Wait until each of its threads stands.

        The signal is for one thread, which halts the others when it takes it. Where that one waits
        for another in a way that no signal ends, the others would go on.
        """
        until = time.monotonic() + HALTING_S
        while not is_halted(self._worker.pid):
            if time.monotonic() > until:
                log = "a thread of the candidate cannot be halted: finish all work in forward."
                raise CandidateFailed(Status.TIMING_MISMATCH, "background_thread", log)
            time.sleep(_LOOK_AGAIN_S)

    def resume(self) -> None:
        """Let it go on."""
        self._worker.resume()

    def end(self) -> None:
        """End it with everything it started."""
        self._worker.end()
        self._outputs.close()

    def _ask(self, op: str, timeout_s: float, status: Status, **fields: object) -> dict[str, Any]:
        try:
            reply = self._worker.request(op, timeout_s, **fields)
        except WorkerTimeout as error:
            self._worker.end()
            if self._worker.over_memory:
                raise over_memory() from error
            if self._worker.over_disk:
                raise over_disk() from error
            log = f"the candidate took over {timeout_s:.0f} s in step {op!r}: it may hang."
            raise CandidateFailed(Status.TIMEOUT, f"timeout_in_{op}", log) from error
        except ChannelClosed as error:
            code = self._worker.end(patience_s=EXIT_PATIENCE_S)
            if self._worker.lost:
                raise WorkerDied(f"the zygote and its workers ended in step {op!r}") from error
            if self._worker.over_memory:
                raise over_memory() from error
            if self._worker.over_disk:
                raise over_disk() from error
            raise failure_of_exit(code) from error
        except FrameError as error:
            self._worker.end()
            raise forged(str(error)) from error
        if not reply["ok"]:
            raise failure_of_reply(reply, status)
        return reply


def forged(log: str) -> CandidateFailed:
    """Return the failure of a process whose messages do not follow the protocol."""
    return CandidateFailed(Status.CRASHED, "forged_message", log)


def overlapping() -> CandidateFailed:
    """Return the failure of a candidate whose output has two elements in one place."""
    log = "an output repeats elements in memory: return a dense tensor."
    return CandidateFailed(Status.WRONG_SHAPE, "overlapping_output", log)


def over_memory() -> CandidateFailed:
    """Return the failure of a process that the watchdog killed for its memory."""
    log = "the candidate passed its memory limit: allocate less."
    return CandidateFailed(Status.OUT_OF_MEMORY, "memory_limit", log)


def over_disk() -> CandidateFailed:
    """Return the failure of a process that filled its build folder."""
    log = f"the build folder holds over {MAX_BUILD_BYTES} bytes: write less."
    return CandidateFailed(Status.BUILD_ERROR, "build_too_large", log)


def overlaps(shape: Sequence[int], stride: object) -> bool:
    """Tell whether a layout puts two elements in one place; malformed strides count as that."""
    if not isinstance(stride, list) or len(stride) != len(shape):
        return True
    if any(type(step) is not int or step < 0 for step in stride):
        return True
    reach = 0
    for size, step in sorted(zip(shape, stride, strict=True), key=lambda pair: pair[1]):
        if size > 1:
            if step <= reach:
                return True
            reach += (size - 1) * step
    return False


def _cpu_s(pid: int) -> float:
    """CPU time of a whole process in s, from its own clock in the kernel (to the nanosecond)."""
    try:
        return time.clock_gettime(_cpu_clock(pid))
    except OSError:
        return 0.0


def _cpu_clock(pid: int) -> int:
    """Id of a process's CPU clock; what clock_getcpuclockid(3) returns on Linux."""
    return (~pid << 3) | 2
