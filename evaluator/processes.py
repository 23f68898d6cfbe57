"""Facts about other processes, read from /proc: what a referee may believe without asking.

The kernel keeps these numbers, so a candidate cannot forge them. A process that ends while it is
read counts as gone, never as an error.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MappingFacts",
    "descendants",
    "folder_bytes",
    "kill_tree",
    "mapping_facts",
    "memory_bytes",
    "thread_cpu_s",
    "tree_memory_bytes",
    "worker_environment",
]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingFacts:
    """What a process did with the mappings of one shared memory file.

    Attributes:
        mapped_bytes: Bytes that it has mapped.
        written_bytes: Bytes of private mappings that it has written to, whole pages: once
            written, a page stays its own, whatever is written afterwards.
    """

    mapped_bytes: int
    written_bytes: int


def worker_environment(*, path: str | None = None) -> dict[str, str]:
    """Return the whole environment that a zygote is started with.

    OpenMP and the allocator read theirs when a process starts, so forked workers inherit what
    the zygote began with: threads that wait without spinning, and pages that are kept rather
    than returned, without which page faults dominate kernels with big outputs.

    Args:
        path: The `PATH` on which workers find a compiler; None: this process's own.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath) if path is None else path,
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "passive",
        "OMP_PROC_BIND": "close",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
        "MALLOC_TOP_PAD_": str(256 << 20),
    }


def descendants(pid: int) -> list[int]:
    """Return the live descendants of a process, itself first.

    Of the first process of a PID namespace these are all processes of the namespace: orphans
    become its children.
    """
    found = [pid]
    for parent in found:
        found.extend(_children(parent))
    return found


def memory_bytes(pid: int) -> int:
    """Return the memory of one process, pages shared with others counted in part (PSS)."""
    for line in _lines(_PROC / str(pid) / "smaps_rollup"):
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def tree_memory_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants, each shared page counted once."""
    return sum(memory_bytes(member) for member in descendants(pid))


def mapping_facts(pid: int, name: str) -> MappingFacts:
    """Return what a process did with a shared memory file.

    Args:
        pid: The process.
        name: The file's name, as given to `os.memfd_create`.
    """
    mapped = written = 0
    inside = False
    for line in _lines(_PROC / str(pid) / "smaps"):
        key, _, rest = line.partition(" ")
        if not key.endswith(":"):
            # "start-end perms offset device inode path"
            inside = len(fields := rest.split()) >= 5 and fields[4] == f"/memfd:{name}"
        elif inside and key == "Size:":
            mapped += int(rest.split()[0]) * 1024
        elif inside and key == "Anonymous:":
            written += int(rest.split()[0]) * 1024
    return MappingFacts(mapped_bytes=mapped, written_bytes=written)


def thread_cpu_s(pid: int) -> Mapping[int, float]:
    """Return the CPU time of each thread of a process, in s, by thread id."""
    times = {}
    for task in _entries(_PROC / str(pid) / "task"):
        # The name in brackets may hold anything; fields count from behind its end.
        _, _, rest = " ".join(_lines(task / "stat")).rpartition(")")
        fields = rest.split()
        if len(fields) > 12:
            times[int(task.name)] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return times


def kill_tree(pid: int) -> None:
    """Kill a process and its descendants, those that fork meanwhile included."""
    for _ in range(16):
        members = descendants(pid)
        for member in members:
            _kill(member)
        if len(members) == 1:
            return


def folder_bytes(folder: Path) -> int:
    """Return the bytes that a folder's files take on disk; links are not followed."""
    total = 0
    pending = [folder]
    while pending:
        for entry in _entries(pending.pop()):
            try:
                status = entry.lstat()
            except OSError:
                continue
            total += status.st_blocks * 512
            if entry.is_dir() and not entry.is_symlink():
                pending.append(entry)
    return total


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _children(pid: int) -> Iterator[int]:
    for task in _entries(_PROC / str(pid) / "task"):
        for line in _lines(task / "children"):
            yield from map(int, line.split())


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
