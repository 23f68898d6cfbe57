"""The sandbox of a worker: everything that bounds what a candidate can reach and use.

Covered: other processes, files, network, shared memory, memory, processes, descriptors, CPUs, the
environment. Each protection that the machine lacks is skipped and left out of the report, so that
an evaluation records what its candidate was really held to.
Not covered: total disk in a writable build folder and memory of the whole process tree (the
referee watches both), the kernel's own flaws, hardware side channels.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.worker import landlock, seccomp
from evaluator.worker.kernel import bound_capabilities, drop_capabilities, prctl
from evaluator.worker.namespaces import INSIDE_ID, mount_private, raise_loopback

__all__ = ["Limits", "close_all_but", "confine", "die_with_parent"]

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS = 1, 4, 8, 38
_CAP_DAC_READ_SEARCH = 2
_MAX_FILE_BYTES = 256 << 20
_MAX_DESCRIPTORS = 256
_MAX_PROCESSES = 64
_GPU_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCH_EXTENSIONS_DIR": "extensions",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}
"""Folders of build artefacts, private to a candidate."""
_ADDRESS_SLACK_BYTES = 1 << 30
"""Address space beside the declared memory: thread stacks, arenas, libraries loaded late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one worker may use.

    Attributes:
        cpus: The CPUs it runs on.
        threads: Threads that its kernels use.
        memory_bytes: Memory beside what it was forked with; None: no limit.
        scratch: Its private folder.
        scratch_bytes: Size of the private folder.
        build: Folder of build artefacts, or None.
        build_writable: Whether it may be written.
        every_cpu: `cpus` are all there are, so that pinning threads cannot leave them.
        gpu: Whether it may use the GPU's driver, which maps more address space than any limit.
        readable: Further folders whose files it may read and run.
        sockets: Whether its processes may talk to each other by sockets; only where it has a
            network of its own, which leads nowhere, and the host's files are hidden from it, so
            that it meets no socket of theirs.
    """

    cpus: Sequence[int]
    threads: int
    memory_bytes: int | None
    scratch: str
    scratch_bytes: int
    build: str | None
    build_writable: bool
    every_cpu: bool
    gpu: bool = False
    readable: Sequence[str] = ()
    sockets: bool = False


def confine(limits: Limits, *, spaces: Iterable[str], private_id: bool) -> list[str]:
    """Confine this process for good; runs as the first process of its namespaces.

    Args:
        limits: What it may use.
        spaces: Names of the namespaces that it is in.
        private_id: It can take `INSIDE_ID`.

    Returns:
        Names of the protections that hold.
    """
    held = list(spaces)
    os.setsid()
    os.sched_setaffinity(0, limits.cpus)
    held.append("affinity")
    if "mount" in held:
        held += mount_private(
            scratch=limits.scratch,
            scratch_bytes=limits.scratch_bytes,
            build=limits.build,
            build_writable=limits.build_writable,
            owner=INSIDE_ID if private_id else os.geteuid(),
            keep=_needed(limits) if limits.sockets else None,
        )
    sockets = limits.sockets and {"net", "hidden"} <= set(held) and raise_loopback()
    os.chdir(limits.scratch)
    _set_environment(limits)
    held += _drop_privileges(private_id=private_id)
    held += _set_resource_limits(limits, own_processes="user" in held)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    held.append("nnp")
    writable = [limits.scratch]
    readable = list(limits.readable)
    if limits.build is not None:
        (writable if limits.build_writable else readable).append(limits.build)
    own_proc = "proc" in held
    if landlock.apply(
        writable=writable,
        readable=readable,
        own_proc=own_proc,
        gpu=limits.gpu,
        sockets=sockets,
    ):
        held.append("landlock")
    if seccomp.apply(pin_affinity=not limits.every_cpu, gpu=limits.gpu, sockets=sockets):
        held.append("seccomp")
    if sockets:
        held.append("sockets")
    return held


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def close_all_but(keep: Iterable[int]) -> None:
    """Close every descriptor but these; the standard streams lead nowhere afterwards."""
    kept = set(keep)
    assert not kept & {0, 1, 2}
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    for entry in os.listdir("/proc/self/fd"):
        descriptor = int(entry)
        if descriptor > 2 and descriptor not in kept:
            # The listing's own descriptor is closed already.
            with _ignore_closed():
                os.close(descriptor)


class _ignore_closed:
    """Context in which closing what is closed is no error."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        return kind is not None and issubclass(kind, OSError)


def _needed(limits: Limits) -> list[str]:
    """What a worker reads outside the system's folders; see `landlock`."""
    paths = [sys.executable, *landlock.interpreter_paths(), *limits.readable]
    return [*paths, os.environ["CUDA_HOME"]] if "CUDA_HOME" in os.environ else paths


def _set_environment(limits: Limits) -> None:
    os.environ["HOME"] = limits.scratch
    os.environ["TMPDIR"] = limits.scratch
    os.environ["EVOKERNEL_BUILD_DIR"] = limits.build or limits.scratch
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(limits.threads)
    if limits.gpu:
        for name, folder in _GPU_CACHES.items():
            os.environ[name] = os.path.join(limits.build or limits.scratch, folder)


def _drop_privileges(*, private_id: bool) -> list[str]:
    """Take the private id where there is one; give up every capability."""
    held = []
    # Reading past permissions stays with a private id: Python may live in a home of mode 0700.
    keep = _CAP_DAC_READ_SEARCH if private_id else None
    bound_capabilities(keep)
    if private_id:
        prctl(_PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
        os.setresuid(INSIDE_ID, INSIDE_ID, INSIDE_ID)
        held.append("uid")
    drop_capabilities(keep)
    held.append("caps")
    # A change of ids makes a process's own /proc folder unreadable; core dumps are off anyway.
    prctl(_PR_SET_DUMPABLE, 1)
    return held


def _set_resource_limits(limits: Limits, *, own_processes: bool) -> list[str]:
    held = ["rlimits"]
    fixed = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _MAX_FILE_BYTES,
        resource.RLIMIT_NOFILE: _MAX_DESCRIPTORS,
        resource.RLIMIT_MEMLOCK: 64 << 10,
    }
    if own_processes:
        # Inside a user namespace only its own processes count; outside, the user's others would.
        fixed[resource.RLIMIT_NPROC] = _MAX_PROCESSES + limits.threads
        held.append("nproc")
    if limits.memory_bytes is not None and not limits.gpu:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        in_use = pages * resource.getpagesize()
        fixed[resource.RLIMIT_AS] = in_use + limits.memory_bytes + _ADDRESS_SLACK_BYTES
        held.append("as")
    for kind, value in fixed.items():
        resource.setrlimit(kind, (value, value))
    return held
