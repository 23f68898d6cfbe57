"""An evaluation: what the referee found out about one candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Literal

from archives.configuration import Configuration

__all__ = [
    "LIBRARY_WORK",
    "ConfigurationResult",
    "DeviceFingerprint",
    "Evaluation",
    "Interval",
    "KernelFacts",
    "LibraryPolicy",
    "Mismatch",
    "Reuse",
    "Rung",
    "Status",
]


LIBRARY_WORK = "library_work"
"""Reason of what a run's own policy rejects, though the referee found it right."""

LibraryPolicy = Literal["allow", "mark", "reject"]
"""What a candidate is worth to a run that leaves the work to a library's kernels."""


class Status(StrEnum):
    """The verdict. Only `OK` has a fitness."""

    OK = "OK"
    SCREENED = "SCREENED"
    BUILD_ERROR = "BUILD_ERROR"
    RUNTIME_ERROR = "RUNTIME_ERROR"
    WRONG_SHAPE = "WRONG_SHAPE"
    WRONG_DTYPE = "WRONG_DTYPE"
    WRONG_VALUE = "WRONG_VALUE"
    NON_DETERMINISTIC = "NON_DETERMINISTIC"
    MUTATED_INPUT = "MUTATED_INPUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    TIMEOUT = "TIMEOUT"
    CRASHED = "CRASHED"
    IMPOSSIBLE = "IMPOSSIBLE"
    TIMING_MISMATCH = "TIMING_MISMATCH"
    UNSTABLE = "UNSTABLE"


class Rung(IntEnum):
    """The highest step of the ladder that was passed."""

    NONE = 0
    SCREEN = 1
    BUILD = 2
    CHECK = 3
    TIME = 4
    VERIFY = 5


class Reuse(StrEnum):
    """Where a candidate's kernels keep what they use again."""

    REGISTERS = "registers"
    CACHE = "cache"
    """A CPU's caches or a GPU's shared memory."""
    LIBRARY = "library"
    """A library's kernels or tensor cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 99 % confidence interval; `low <= high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        assert self.low <= self.high, f"an interval needs low <= high, got {self}"


class Mismatch(StrEnum):
    """How calls on the same inputs differ, where no number says it."""

    NUMBERS = "numbers"
    """One returned a number where another one returned NaN or infinity."""
    SHAPES = "shapes"
    """They returned different shapes, or different numbers of tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """Measured or compiled facts about a candidate; None: not measured.

    Attributes:
        launches: Kernel launches per call: own kernels plus library operations that compute.
        own_kernel_share: Share of the time spent in the candidate's own kernels, 0 to 1.
        reuse: Where reuse lives.
        work: Bytes (CPU: per iteration of the main vector loop; GPU: per program) handled.
        vector_bits: Widest vector registers used by the machine code, in bits; 0: scalar.
        registers: Registers of a thread of a GPU's longest own kernel.
        shared_bytes: Shared memory of a program of that kernel.
        programs: Programs that it is launched with.
        streams: Streams of a GPU that the kernels of one call ran on.
        spread: Largest difference between what calls on the same inputs return, over the output's
            root mean square; 0: they agree bit for bit; a `Mismatch`: more than a number can say.
    """

    launches: int | None = None
    own_kernel_share: float | None = None
    reuse: Reuse | None = None
    work: int | None = None
    vector_bits: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    programs: int | None = None
    streams: int | None = None
    spread: float | Mismatch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationResult:
    """What became of one configuration that was tried.

    Attributes:
        configuration: The point.
        status: `OK` where it passed what it was put to: the fastest all sets of inputs, one that
            lost the race perhaps a single set.
        latency_ms: Median time of a call, or None where it was not timed.
    """

    configuration: Configuration
    status: Status
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFingerprint:
    """The device and software a number was measured on; numbers of two never mix.

    Attributes:
        kind: "cpu" or "cuda".
        name: Model name.
        uuid: Identity of the very device; for a CPU, a digest of model, cores and host.
        threads: Threads that the timed code may use (CPU), else 0.
        vector_bits: Width of a CPU's vector registers; 0: not known.
        versions: Versions of python, torch, compiler, driver and operating system.
    """

    kind: str
    name: str
    uuid: str
    threads: int
    versions: dict[str, str]
    vector_bits: int = 0

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' if self.threads != 1 else ''}"
        return self.name + (threads if self.kind == "cpu" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The verdict on one candidate, and what it rests on.

    Attributes:
        status: The verdict.
        reason: Stable code of the reason, such as "fallback_to_reference"; "" for `OK`.
        rung: The highest rung passed.
        log: What the author needs in order to repair it, at most 4 KB.
        latency_ms: Median time of one call, in ms.
        reference_ms: The same of the reference at torch's defaults.
        speedup: Median of the paired ratios against the reference at torch's defaults.
        interval: 99 % interval of `speedup`.
        matched_speedup: Against the fastest torch setting that is no less accurate.
        error: Worst error against float64, relative to the output's root mean square.
        error_bound: The error that was permitted, in the same unit.
        facts: Measured and compiled facts.
        configuration: The configuration that won, where several were tried.
        configurations: All that were tried.
        roofline_share: Ceiling time over measured time, 0 to 1.
        isolation: Protections that the candidate's process had, such as "pid+net+seccomp".
        device: Where it was measured.
        referee_version: Version of the measuring protocol.
        cost_s: Seconds of evaluator time that it took.
    """

    status: Status
    reason: str = ""
    rung: Rung = Rung.NONE
    log: str = ""
    latency_ms: float | None = None
    reference_ms: float | None = None
    speedup: float | None = None
    interval: Interval | None = None
    matched_speedup: float | None = None
    error: float | None = None
    error_bound: float | None = None
    facts: KernelFacts = field(default_factory=KernelFacts)
    configuration: Configuration | None = None
    configurations: tuple[ConfigurationResult, ...] = ()
    roofline_share: float | None = None
    isolation: str = ""
    device: DeviceFingerprint | None = None
    referee_version: str = ""
    cost_s: float = 0.0

    MAX_LOG_BYTES = 4096

    def __post_init__(self) -> None:
        if self.status is Status.OK:
            assert (self.speedup or 0) > 0, "OK needs a positive speedup"
            assert self.interval is not None, "OK needs an interval"
            assert (self.latency_ms or 0) > 0, "OK needs a latency"
            assert self.rung >= Rung.TIME, "OK needs the timing rung"
        else:
            assert self.reason, f"{self.status} needs a reason"
            assert self.speedup is None, f"{self.status} has no speedup"
        assert len(self.log.encode()) <= self.MAX_LOG_BYTES, "a log holds at most 4 KB"

    @property
    def objective_speedup(self) -> float | None:
        """The speedup that a search climbs by; None where there is no fitness.

        The matched one where torch's other settings are known, so that a candidate meets the
        fastest setting that is no less accurate than itself; else the one over torch's defaults.
        Everything that ranks candidates reads this and nothing else.
        """
        return self.speedup if self.matched_speedup is None else self.matched_speedup
