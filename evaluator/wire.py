"""The wire between referee and workers: the contract that both sides import.

Transport: one `AF_UNIX` stream socket per process. A frame is a 4-byte big-endian length and that
many bytes of UTF-8 JSON, an object; at most `MAX_FRAME_BYTES`. Nothing is ever pickled. Tensors
never travel in frames: they lie in shared memory files (memfd), whose descriptors are handed over
once, at spawn.

Shared memory of a session (one problem on one referee):
    inputs      written by the reference worker; mapped private by candidate workers (sealed
                against new writers, so that a candidate's write reaches only its own copy)
    state       parameters and buffers, likewise
    expected    written by the reference worker, never handed to a candidate: its float32
                outputs and the float64 outputs
    outputs     one per candidate worker, written by it, read by the referee
    signals     on a GPU: words that sealed legs wait for and set; a page for each process
The referee creates and sizes the files. The reference worker may be spawned with empty ones, which
are sized after `open` has told the specs, and sealed after its first write to each. A candidate
worker maps its files at spawn, at their size then, and keeps no descriptor of them.
An *input set* is one value for each input, plain numbers included (8 bytes each), laid out by
`layout`; a *base* is the offset of a set in `inputs`, a multiple of `ALIGNMENT_BYTES`.
Values in `outputs` and `expected` are written row-major; the offset in their spec counts from the
start of the memory. `own_stride` beside it is the stride that the model itself returned.

Every request {"op": NAME, ...} has one reply: {"ok": true, ...} or {"ok": false, "status": STATUS,
"reason": CODE, "log": TEXT}. Nothing a candidate worker replies is trusted: shapes, bytes and the
referee's own clock decide.

Zygote (referee -> zygote); it runs as `python -P -m evaluator.worker.zygote FD` with the
environment of `processes.worker_environment` and says {"ok": true, "ready": true, "pid": its pid,
"cpus": [...]} first
    spawn   role (a key of `worker.worker.MEMORY_OF_ROLE`), cpus, threads, memory_bytes, scratch (an
            existing empty private folder: a tmpfs covers it where mounts are possible), memory
            (names of the memfds passed, in order) + descriptors [channel, memfds...];
            optional: build (an existing folder for build artefacts, or null; it survives the
            worker), build_writable (false), scratch_bytes (256 MiB), populate (false:
            the pages of private memories come when touched), readable (further folders whose files
            it may read and run)
            -> pid (as the referee sees it), isolation (such as "pid+net+seccomp")
    reap    pid, timeout_s; optional kill (false: after the wait a live one goes on)
            -> exit (code, or negative signal) | null (it lives)
Reference worker
    open    source, precision, seed; optional domains (list of {"kind", "upper"}; empty: inferred)
            -> inputs, init, state, outputs (lists of value specs; init: one encoded value),
            conversions (of floating-point parameters and buffers, those that are not persistent
            among them, by name: the type as constructed, and as converted),
            tuple (true: the model returns a tuple), domains (as used, with "inferred")
    draw    base, seed, variant, runs (whether outliers may be neighbours) -> fills a set from
            get_inputs() and a hidden variation, one of `VARIANTS`; applied (false: the domains
            permit no such variation, own was drawn)
    stock   seed, sets                 -> prepares a reservoir of own-distribution values: variants
            (those of `TIMED_VARIANTS` that the problem permits), runs (whether outliers may be
            neighbours), overflowing (those on which the check has no set)
    mix     bases, variants (of each), seed -> fills sets with contents never seen before, fast
    weights seed (null: as constructed) -> sets and publishes parameters and buffers in `state`
    expect  base, at                   -> float64 outputs at offset `at` of `expected`: outputs;
            float64 (false: the model cannot run in float64, its own precision was written)
    call    base, at                   -> own-precision outputs at offset `at` of `expected`
Candidate worker
    open    index, source, init, inputs, state, conversions, seed; optional outputs (the reference's
            specs, for poisoning) -> builds, imports and constructs ModelNew
    weights index                      -> loads `state`; loaded (false: names differ)
    call    index, base, poison        -> outputs in `outputs` (specs with offset), tuple
    census  index, base, calls         -> facts about kernels (fields of `KernelFacts`, spread
            null where a call failed)
    hold    call                       -> keeps the outputs of that call of the last leg for good
Both
    leg     index, bases               -> one call per base, outputs kept (empty: a round trip):
            addresses (of the tensors of each call, in the worker's own memory), strides
    ship    call, at                   -> writes the outputs of that call of the last leg
Trace worker
    trace   source, precision          -> graph
    lint    source, precision, seed, domains -> flaws, remarks (one clause each)
Compat worker (roles "compat", "cuda_compat")
    kernelbench source, candidate, precision -> correct, log; where correct: kernel_ms, reference_ms
Rates worker (roles "rates", "cuda_rates")
    rates                              -> rates: what the device reaches (`archives.rates.Rates`)
Sanitizer worker (roles "sanitizer", "cuda_sanitizer")
    sanitize tool (path of compute-sanitizer), check ("memcheck" | "racecheck"), source, candidate,
            precision, seed, patience_s -> finished, output (its end)
Lift worker (role "cuda_lift"; "lift" without a GPU): what Inductor writes for a reference
    open    source, precision, device  -> builds the model and draws its inputs
    compile name, options (of `torch._inductor.config`) -> lifted: null, or why there is nothing
    finish                             -> runs it once: lifted (fields of `problems.lifted.Lifted`)

On a GPU inputs and outputs lie on the device, `state` as above. *Numbers* are the plain numbers of
a set, encoded, null in place of tensors. A *room* is memory with places for input sets, allocated
by the reference worker and exported to one candidate; a handle is the 128 hexadecimal digits of a
CUDA IPC handle, and an offset counts from the start of the allocation that it names. *Exported
outputs* are specs with a handle, the number of that allocation and the offset in it, or with a room
and the offset in that, where an input is returned; handle and room are "" where nobody else can
read them. A candidate names its rooms, the reference worker is told their numbers, or null. A
*page* is a process's own part of `signals`, a *ticket* the number that a *sealed* leg waits for
there (docs/referee.md, On a GPU).
CUDA reference worker (role "cuda_reference")
    open    as the reference worker's; optional pointers (list of [output, input, dimension])
            -> the same, and numbers (of some set)
    weights seed                       -> as the reference worker's
    draw    number, seed, variant, runs -> draws a check set, which keeps that number
    expect  number                     -> computes what it should give: float64, deviations (of the
            own precision), means (of the float64 outputs)
    nulls   number, constants, enough  -> found: for each output, by name, the deviation of what
            computes nothing
    room    room (its number), sets    -> handle, offset, bytes
    clear   rooms                      -> frees them
    show    room, number               -> copies a check set to the first place: numbers
    shown   room, number               -> unchanged
    compare number, outputs (exported) -> deviations | null (they cannot be read), log
    stock   seed, sets (0: sets are drawn, not mixed) -> as the reference worker's
    mix     variants (of each call), seed, room | null -> fills timed sets, and copies of them:
            numbers of each
    mixed   room, calls                -> unchanged
    look_up calls                      -> reads a byte of each page of a leg's memory
    leg     calls                      -> times_ms of each call, calls: the outputs of each
    idle_leg calls                     -> times_ms of calls that compute nothing
    copy_rate                          -> ms_per_byte of copies on the device
    sealed_leg calls (0: what is beside them), ticket, patience_s, limit_s -> wall_ms | null (it
            cannot be queued)
    release page, ticket, limit_s, room | null, calls, call, at (0 to 1), outputs (exported, of that
            call; empty: none is looked at) -> writes a candidate's inputs and lets its leg go:
            copy_ms, wall_ms | null (it did not end in time), late_ms, deviations of the piece of
            the outputs at that place; or, where they cannot be read, deviations null, log
    compare_timed call, outputs        -> as compare, against its own output of that call
    trim, rest                         -> give back cached memory; all but the model
CUDA candidate worker (role "cuda_candidate")
    attach  room (a name), handle, offset, bytes -> creates the context, maps the room
    signals page (its number)          -> maps that page, and no other ever
    open    as the candidate worker's, and numbers -> also compiles what the first call would
    weights index                      -> as the candidate worker's
    call    index, numbers             -> exported outputs, tuple
    look_up index, room, numbers (of each call) -> reads a byte of each page of a leg's memory
    leg     index, room, numbers (of each call) -> times_ms, calls: the outputs of each
    queue   index, room, numbers (of each call; empty: a leg without calls), ticket -> queues a
            sealed leg; calls: the outputs of each, before the device has begun
    ship    call                       -> outputs of that call of the last leg, copied row after row
    forget                             -> gives the memory of what it returned back
    prepare_census                     -> attaches the profiler
    watch   index, numbers, calls      -> calls under the profiler
    census                             -> as the candidate worker's, of what was watched
"""

from __future__ import annotations

import json
import math
import os
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from evaluator.values import (
    ALIGNMENT_BYTES,
    ITEM_BYTES,
    FrameError,
    ValueSpec,
    decode_value,
    encode_value,
    layout,
)
from problems.errors import EvaluatorError, WorkerTimeout

__all__ = [
    "ALIGNMENT_BYTES",
    "CROWDED",
    "ITEM_BYTES",
    "MAX_FRAME_BYTES",
    "TIMED_VARIANTS",
    "VARIANTS",
    "Channel",
    "ChannelClosed",
    "FrameError",
    "ValueSpec",
    "decode_value",
    "encode_value",
    "layout",
]

MAX_FRAME_BYTES = 1 << 20
CROWDED = "crowded"
"""Reason of a reply: others have the device's memory at the moment."""
VARIANTS = ("own", "scaled_up", "scaled_down", "negated", "around_zero", "spiked")
TIMED_VARIANTS = ("own", "spiked", "scaled_up", "negated", "around_zero")
"""What timed contents may be of; numbers scaled down lie among their own, and may be slow ones."""

_HEADER = struct.Struct(">I")
_MAX_DESCRIPTORS = 16


class ChannelClosed(EvaluatorError):
    """The other side closed the channel, usually because its process ended."""


class Channel:
    """One end of a stream of frames; the other end may be hostile.

    After a `FrameError` or `WorkerTimeout` the stream may stand inside a frame: close it.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._buffer = bytearray()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Return two connected ends."""
        left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(left), cls(right)

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Channel:
        """Return the end that an inherited descriptor names, and own it."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(
        self,
        message: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send one frame.

        Args:
            message: JSON-able.
            timeout_s: Deadline for the whole frame; None: no deadline.
            descriptors: Open files to hand over with it, at most 16.

        Raises:
            FrameError: The message is no JSON, or too large.
            ChannelClosed: The other end is closed.
            WorkerTimeout: The other end did not read in time.
        """
        try:
            payload = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise FrameError(f"a message cannot be written as JSON: {error}") from error
        if len(payload) > MAX_FRAME_BYTES:
            raise FrameError(
                f"a message has {len(payload)} bytes, a frame holds at most {MAX_FRAME_BYTES}"
            )
        data = _HEADER.pack(len(payload)) + payload
        try:
            self._socket.settimeout(timeout_s)
            if descriptors:
                sent = socket.send_fds(self._socket, [data], list(descriptors))
                data = data[sent:]
            self._socket.sendall(data)
        except TimeoutError as error:
            raise WorkerTimeout(f"a process took no message for {timeout_s} s") from error
        except OSError as error:
            raise ChannelClosed(f"a message found no reader: {error}") from error

    def receive(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Receive one frame.

        Args:
            timeout_s: Deadline for the whole frame, however slowly it drips; None: no deadline.

        Raises:
            FrameError: The bytes are no frame: too long, no JSON object, NaN, nested too deeply.
            ChannelClosed: The other end closed before the frame was complete.
            WorkerTimeout: The frame was not complete in time.
        """
        message, descriptors = self._receive(timeout_s, 0)
        assert not descriptors
        return message

    def receive_with_descriptors(
        self, *, timeout_s: float | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        """Receive one frame and the descriptors that came with it; see `receive`."""
        return self._receive(timeout_s, _MAX_DESCRIPTORS)

    def request(
        self,
        message: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        descriptors: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Send a request and return its reply; the deadline holds for both together.

        Raises:
            FrameError, ChannelClosed, WorkerTimeout: As `send` and `receive`.
        """
        start = time.monotonic()
        self.send(message, timeout_s=timeout_s, descriptors=descriptors)
        if timeout_s is not None:
            timeout_s = max(timeout_s - (time.monotonic() - start), 0.001)
        return self.receive(timeout_s=timeout_s)

    def pending(self, timeout_s: float = 0.0) -> bool:
        """Tell whether bytes are there that were not read yet, or come in time.

        Raises:
            ChannelClosed: This end was closed.
        """
        if self._buffer:
            return True
        if self._socket.fileno() < 0:
            raise ChannelClosed("the channel was closed on this side")
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(1000 * timeout_s))

    def _receive(
        self, timeout_s: float | None, max_descriptors: int
    ) -> tuple[dict[str, Any], list[int]]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        descriptors: list[int] = []
        self._fill(_HEADER.size, deadline, max_descriptors, descriptors)
        (length,) = _HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame claims {length} bytes, at most {MAX_FRAME_BYTES} are taken")
        self._fill(_HEADER.size + length, deadline, max_descriptors, descriptors)
        payload = bytes(self._buffer[_HEADER.size : _HEADER.size + length])
        del self._buffer[: _HEADER.size + length]
        return _parse(payload), descriptors

    def _fill(
        self, size: int, deadline: float | None, max_descriptors: int, descriptors: list[int]
    ) -> None:
        """Read until the buffer holds `size` bytes."""
        while len(self._buffer) < size:
            try:
                self._socket.settimeout(_remaining(deadline))
                if max_descriptors:
                    missing = size - len(self._buffer)
                    data, new, _, _ = socket.recv_fds(self._socket, missing, max_descriptors)
                    for descriptor in new:
                        os.set_inheritable(descriptor, False)
                    descriptors.extend(new)
                else:
                    data = self._socket.recv(65536)
            except TimeoutError as error:
                raise WorkerTimeout("a process missed its deadline for a message") from error
            except OSError as error:
                raise ChannelClosed(f"a process broke its channel: {error}") from error
            if not data:
                raise ChannelClosed("a process closed its channel")
            self._buffer += data


def _remaining(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _parse(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload, parse_constant=_no_constant, parse_float=_finite)
        if b"\\ud" in payload.lower():
            json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame holds no valid JSON: {str(error)[:200]}") from None
    if not isinstance(message, dict):
        raise FrameError(f"a frame holds an object, got {type(message).__name__}")
    return message


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is not permitted")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value
